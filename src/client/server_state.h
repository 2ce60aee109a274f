#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/http_loop.h"

namespace reprise::client {

/// One sample of a Prometheus text: name{labels} value.
struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

/// Reads the Prometheus text format. Comments are skipped, and so are lines that are none of it.
std::vector<MetricSample> parse_metrics(std::string_view text);

/// Decode steps by (mode, reason).
using DecodeSteps = std::map<std::pair<std::string, std::string>, int64_t>;

/// What a server's decode steps have come to so far.
struct DecodeWork {
  int64_t tokens = 0;
  double step_seconds = 0;  ///< of the steps alone
  double wall_seconds = 0;  ///< with the time between them
};

/// Counters of /metrics; absent for a server that has none of the kind.
struct DecodeCounters {
  std::optional<DecodeSteps> steps;  ///< reprise_decode_steps_total
  std::optional<DecodeWork> work;    ///< reprise_decode_tokens_total, ..._step_seconds_total, ..._wall_seconds_total
};

/// What a server tells of itself.
struct ServerInfo {
  bool incremental_text = false;          ///< /generate streams what is new only
  std::optional<int64_t> vocabulary;      ///< ids that a prompt may hold
  std::optional<double> last_throughput;  ///< tokens per second of its last decode interval
  std::optional<double> accept_length;    ///< of speculative decoding
};

/// Questions to a server, one after the other.
class ServerState {
 public:
  explicit ServerState(HttpLoop& loop) : loop_(loop) {}

  /// The first model of /v1/models; absent where there is no such list. kIo when the server does not answer.
  std::optional<std::string> model();
  /// From /get_server_info; all absent where there is none.
  ServerInfo info();
  DecodeCounters decode_counters();
  /// Empties the server's prefix cache. kUnsupported where there is no /flush_cache, kIo when it refused.
  void flush_cache();

 private:
  HttpLoop& loop_;
};

/// later - earlier; steps that did not move are left out.
DecodeSteps difference(const DecodeSteps& later, const DecodeSteps& earlier);
/// "full: 1270 of 1280 replayed (99.2 %), 10 above_largest_bucket".
std::string steps_text(const DecodeSteps& steps);

}  // namespace reprise::client
