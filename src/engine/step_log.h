#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/step_counters.h"

namespace reprise::engine {

/// How one step of an engine ran.
struct StepRecord {
  int64_t index = 0;  ///< steps of an engine are counted from 0
  replay::StepKind kind = replay::StepKind::kDecode;
  replay::StepReason reason = replay::StepReason::kModeEager;
  bool replayed = false;
  int32_t sequences = 0;
  int32_t tokens = 0;
  int32_t bucket = 0;  ///< sequences of a decode step's captured graph, tokens of a prompt step's; 0: not replayed
  float milliseconds =
      0;  ///< from its beginning until its logits were asked for and there, without captures on the way
  /// Host time between the end of the step before and the begin of this one; 0 when there was nothing to do meanwhile.
  float gap_milliseconds = 0;
  int64_t kv_tokens_used = 0;  ///< that requests held when it ran, in whole pages
};

/// The last steps of an engine. Allocates nothing when steps are added. For one thread.
class StepLog {
 public:
  static constexpr size_t kCapacity = 512;

  /// The records come in the order of their indices.
  void add(const StepRecord& record);
  /// Index of the last one; -1 when there is none.
  int64_t last_index() const { return last_index_; }
  /// Appends those that have a larger index, the oldest first.
  void copy_after(int64_t index, std::vector<StepRecord>& out) const;
  /// The median of the gaps in front of replayed steps; 0 when there are none.
  double median_gap() const;

 private:
  std::array<StepRecord, kCapacity> records_{};
  size_t count_ = 0;  // ever added
  int64_t last_index_ = -1;
};

}  // namespace reprise::engine
