#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine_service.h"

namespace reprise::server {

struct StepReportOptions {
  /// What captured graphs are called: the device's name and " graph".
  std::string graph_label = "cpu graph";
  /// Decode steps between two of their lines; 0: no lines of steps.
  int32_t decode_interval = 40;
  /// Free memory of the device in GB, asked on the reporter's thread; none: that of the host.
  std::function<double()> available_gigabytes = {};
};

/// Says in log lines of SGLang's form what an engine's steps have been:
///
///   Prefill batch. #new-seq: 1, #new-token: 34, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0,
///   Decode batch, #running-req: 8, #token: 912, token usage: 0.04, cpu graph: True, gen throughput (token/s): 913.20,
///   ... Capture cpu graph end. Time elapsed: 0.01 s. mem usage=0.00 GB. avail mem=11.93 GB.
///
/// A line tells of all steps since the line of its kind before it. For one thread.
class StepReport {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `begin`: what has been before is not told.
  explicit StepReport(StepReportOptions options, engine::ServiceSnapshot begin = {})
      : options_(std::move(options)), last_(std::move(begin)) {}

  /// The lines that are due. `records`: the steps since the last call, or of them what the engine still knows.
  std::vector<std::string> update(const engine::ServiceSnapshot& snapshot, std::span<const engine::StepRecord> records,
                                  Time now);

 private:
  void report_captures(const engine::ServiceSnapshot& snapshot, std::vector<std::string>& lines);
  void report_prefill(const engine::ServiceSnapshot& snapshot, std::span<const engine::StepRecord> records,
                      std::vector<std::string>& lines);
  void report_decode(const engine::ServiceSnapshot& snapshot, std::span<const engine::StepRecord> records, Time now,
                     std::vector<std::string>& lines);

  StepReportOptions options_;
  engine::ServiceSnapshot last_;     // of the last call
  engine::Statistics decode_begin_;  // when the steps of the next decode line began
  int64_t replayed_begin_ = 0;
  Time begin_{};
  bool active_ = false;
};

/// Writes a StepReport of a service to the log, a few times a second at most, on a thread of its own.
class StepReporter {
 public:
  /// `service` must outlive this.
  StepReporter(const engine::EngineService& service, StepReportOptions options);
  ~StepReporter();
  StepReporter(const StepReporter&) = delete;
  StepReporter& operator=(const StepReporter&) = delete;

 private:
  void run();

  const engine::EngineService& service_;
  StepReport report_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace reprise::server
