#include "server/step_report.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/system_memory.h"

namespace reprise::server {
namespace {

constexpr double kGigabyte = 1 << 30;

double usage(const engine::ServiceSnapshot& snapshot, int64_t tokens) {
  return snapshot.kv_tokens_capacity > 0
             ? static_cast<double>(tokens) / static_cast<double>(snapshot.kv_tokens_capacity)
             : 0;
}

int64_t replayed_steps(const engine::ServiceSnapshot& snapshot) {
  return snapshot.counters.steps(replay::StepKind::kDecode, replay::StepReason::kReplayed);
}

}  // namespace

std::vector<std::string> StepReport::update(const engine::ServiceSnapshot& snapshot,
                                            std::span<const engine::StepRecord> records, Time now) {
  std::vector<std::string> lines;
  report_captures(snapshot, lines);
  if (options_.decode_interval > 0) {
    report_prefill(snapshot, records, lines);
    report_decode(snapshot, records, now, lines);
  }
  last_ = snapshot;
  return lines;
}

void StepReport::report_captures(const engine::ServiceSnapshot& snapshot, std::vector<std::string>& lines) {
  if (snapshot.captures + snapshot.recaptures == last_.captures + last_.recaptures) return;
  const double bytes = static_cast<double>(snapshot.graph_bytes + snapshot.arena_bytes) -
                       static_cast<double>(last_.graph_bytes + last_.arena_bytes);
  const double available = options_.available_gigabytes
                               ? options_.available_gigabytes()
                               : static_cast<double>(system_memory().available_bytes) / kGigabyte;
  lines.push_back(fmt::format("Capture {} end. Time elapsed: {:.2f} s. mem usage={:.2f} GB. avail mem={:.2f} GB.",
                              options_.graph_label, snapshot.capture_seconds - last_.capture_seconds, bytes / kGigabyte,
                              available));
}

void StepReport::report_prefill(const engine::ServiceSnapshot& snapshot, std::span<const engine::StepRecord> records,
                                std::vector<std::string>& lines) {
  const engine::Statistics& now = snapshot.statistics;
  if (now.prefill_steps == last_.statistics.prefill_steps) return;
  int64_t sequences = 0;
  for (const engine::StepRecord& record : records) {
    if (record.kind == replay::StepKind::kPrefill) sequences += record.sequences;
  }
  lines.push_back(
      fmt::format("Prefill batch. #new-seq: {}, #new-token: {}, #cached-token: {}, token usage: {:.2f}, "
                  "#running-req: {}, #queue-req: {}, ",
                  sequences, now.prefill_tokens - last_.statistics.prefill_tokens,
                  now.cached_tokens - last_.statistics.cached_tokens, usage(snapshot, snapshot.kv_tokens_used),
                  snapshot.running, snapshot.waiting));
}

void StepReport::report_decode(const engine::ServiceSnapshot& snapshot, std::span<const engine::StepRecord> records,
                               Time now, std::vector<std::string>& lines) {
  const engine::Statistics& total = snapshot.statistics;
  const bool stepped =
      total.decode_steps + total.prefill_steps != last_.statistics.decode_steps + last_.statistics.prefill_steps;
  if (!stepped) {
    // Time in which nothing runs is nobody's; a wait for memory or a long step is.
    active_ = active_ && snapshot.running > 0;
    return;
  }
  if (!active_) {
    active_ = true;
    begin_ = last_.heartbeat == Time{} ? now : last_.heartbeat;
    decode_begin_ = last_.statistics;
    replayed_begin_ = replayed_steps(last_);
  }
  const int64_t steps = total.decode_steps - decode_begin_.decode_steps;
  if (steps < options_.decode_interval) return;
  // Of one moment, which is the last step's: requests may have ended since.
  int32_t sequences = snapshot.running;
  int64_t held = snapshot.kv_tokens_used;
  for (const engine::StepRecord& record : records) {
    if (record.kind != replay::StepKind::kDecode) continue;
    sequences = record.sequences;
    held = record.kv_tokens_used;
  }
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const int64_t tokens = total.generated_tokens - decode_begin_.generated_tokens;
  lines.push_back(
      fmt::format("Decode batch, #running-req: {}, #token: {}, token usage: {:.2f}, {}: {}, gen throughput (token/s): "
                  "{:.2f}, #queue-req: {}, ",
                  sequences, held, usage(snapshot, held), options_.graph_label,
                  replayed_steps(snapshot) - replayed_begin_ == steps ? "True" : "False",
                  seconds > 0 ? static_cast<double>(tokens) / seconds : 0, snapshot.waiting));
  begin_ = now;
  decode_begin_ = total;
  replayed_begin_ = replayed_steps(snapshot);
}

StepReporter::StepReporter(const engine::EngineService& service, StepReportOptions options)
    : service_(service), report_(std::move(options), service.snapshot()), thread_([this] { run(); }) {}

StepReporter::~StepReporter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void StepReporter::run() {
  constexpr std::chrono::milliseconds kInterval{200};
  int64_t seen = -1;
  for (const engine::StepRecord& record : service_.step_records(seen)) seen = record.index;
  std::unique_lock lock(mutex_);
  // Once more at the end: of what came last.
  for (bool last = false; !last;) {
    last = stop_;
    const engine::ServiceSnapshot snapshot = service_.snapshot();
    const std::vector<engine::StepRecord> records = service_.step_records(seen);
    if (!records.empty()) seen = records.back().index;
    for (const std::string& line : report_.update(snapshot, records, std::chrono::steady_clock::now())) {
      log_info("{}", line);
    }
    stopping_.wait_for(lock, kInterval, [this] { return stop_; });
  }
}

}  // namespace reprise::server
