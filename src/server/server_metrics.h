#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/engine_service.h"
#include "server/http_server.h"

namespace reprise::server {

/// Counts in ranges, as Prometheus has them. Thread-safe, without locks.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 20;
  /// `bounds`: upper ends, ascending.
  explicit Histogram(std::span<const double> bounds);
  void observe(double value);
  /// Appends its samples in Prometheus' text form. `labels` without braces, maybe empty.
  void append_text(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  std::span<const double> bounds_;
  std::array<std::atomic<int64_t>, kMaxBounds + 1> counts_{};
  std::atomic<double> sum_{0};
};

/// What the server counts by itself; the rest comes from the engine's snapshot. Thread-safe.
class ServerMetrics {
 public:
  ServerMetrics();

  Histogram time_to_first_token;
  Histogram inter_token_latency;
  Histogram request_latency;
  std::atomic<int64_t> requests{0};  ///< that were submitted to the engine
  std::atomic<int64_t> aborted{0};
  std::atomic<int64_t> failed{0};
  std::atomic<int64_t> prompt_tokens{0};
  std::atomic<int64_t> generated_tokens{0};
  std::atomic<int64_t> cached_tokens{0};
};

/// The page of /metrics: SGLang's names, and what Reprise adds. SGLang's have a colon, which Prometheus keeps for
/// recording rules; `plain` writes '_' for it.
std::string metrics_text(const ServerMetrics& metrics, const engine::ServiceSnapshot& snapshot,
                         const HttpCounters& http, std::string_view model_name, bool plain = false);

}  // namespace reprise::server
