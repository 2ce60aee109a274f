#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "ops/host_list.h"
#include "replay/capture_cache.h"
#include "replay/graph_runner.h"
#include "replay/step_batch.h"
#include "replay/step_counters.h"
#include "replay/step_program.h"
#include "replay/wanted_captures.h"

namespace reprise::replay {

/// Which sizes of a runner's steps are captured, when, and what that costs. A size is that of CaptureReport::Bucket.
class StepCaptures {
 public:
  /// Tokens and sequences of a captured step: a key of the cache that takes no memory of its own. No two captures share
  /// one: a prompt step of one token does not exist.
  using Key = std::array<int64_t, 2>;
  static Key key_of(StepKind kind, int32_t size) { return {size, sequences_of(kind, size)}; }
  static int32_t sequences_of(StepKind kind, int32_t size) { return kind == StepKind::kDecode ? size : 1; }

  /// What a step replays, or why it does not.
  struct Found {
    CaptureCache::Entry* entry = nullptr;
    StepReason reason = StepReason::kReplayed;
  };

  /// All references must outlive it. `program_of` makes the program of a kind when it is first needed. The sizes that
  /// can be captured are ascending.
  StepCaptures(device::Device& device, device::Stream& stream, const RunnerOptions& options,
               const std::vector<int32_t>& buckets, const std::vector<int32_t>& prefill_sizes,
               CaptureOptions capture_options, std::function<StepProgram&(StepKind)> program_of);

  /// Captures sizes ahead, the largest first; those beyond the limit and those that are there are left out.
  void capture_series(StepKind kind, std::vector<int32_t> sizes);
  /// See GraphRunner.
  bool capture_wanted();
  bool wants_capture() const { return !wanted_.empty(); }

  /// The captured graph for a step, captured now if it has to be and may be.
  Found find_for(StepKind kind, int32_t size, const StepBatch& batch);
  /// Queues the replay for these host lists. Another reason than kReplayed when kernels choose otherwise for them and
  /// that could not be captured: nothing is queued then.
  StepReason replay(StepKind kind, int32_t size, CaptureCache::Entry& entry, std::span<const ops::HostList> lists);
  /// Null when there is none.
  CaptureCache::Entry* find(StepKind kind, int32_t size) { return cache_.find(key_of(kind, size)); }

  const CaptureReport& report() const { return report_; }
  void set_budget(std::string text) { report_.budget = std::move(text); }
  void add_arena_bytes(size_t bytes) { report_.arena_bytes += bytes; }

 private:
  bool beyond_limit(StepKind kind, int32_t size);
  bool must_wait(StepKind kind, int32_t size);
  void recapture_size(StepKind kind, int32_t size, const StepBatch& batch);
  void capture_size(StepKind kind, int32_t size, int done, int total, const StepBatch* batch);
  void describe(CaptureReport::Bucket& bucket, const CaptureCache::Entry& entry);
  CaptureCache::Entry& capture_graph(StepKind kind, int32_t size, const StepBatch* batch);
  CaptureCache::Entry& capture_program(StepProgram& program, StepKind kind, int32_t size, const StepBatch* batch);
  StepReason capture_variant(StepKind kind, int32_t size, CaptureCache::Entry& entry, const GuardMiss& miss,
                             std::span<const ops::HostList> lists);
  void capture_failed(StepKind kind, int32_t size, const std::exception& error);

  device::Device& device_;
  device::Stream& stream_;
  const RunnerOptions& options_;
  const std::vector<int32_t>& buckets_;
  const std::vector<int32_t>& prefill_sizes_;
  std::function<StepProgram&(StepKind)> program_of_;
  CaptureCache cache_;
  std::set<Key> failed_;
  WantedCaptures wanted_;
  std::array<double, 2> last_milliseconds_{};  // that a capture took, by kind; 0: there was none
  std::set<std::pair<StepKind, StepReason>> logged_;
  std::set<std::string> logged_choices_;
  CaptureReport report_;
};

}  // namespace reprise::replay
