#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "replay/step_batch.h"
#include "replay/step_counters.h"

namespace reprise::replay {

/// Sizes of steps that are to be captured when there is time for it, because steps have run eagerly without.
class WantedCaptures {
 public:
  struct Size {
    StepKind kind = StepKind::kDecode;
    int32_t size = 0;     ///< see CaptureReport::Bucket
    int64_t steps = 0;    ///< that would have used it
    StepBatch last = {};  ///< of them
  };

  /// One more step would have been replayed with this size.
  void add(StepKind kind, int32_t size, const StepBatch& batch) {
    Size& wanted = sizes_[{kind, size}];
    wanted.kind = kind;
    wanted.size = size;
    ++wanted.steps;
    wanted.last = batch;
  }
  bool empty() const { return sizes_.empty(); }
  /// The size that most steps wanted, of equal ones a decode step's and the smallest; it is not wanted any more.
  std::optional<Size> take_most_wanted() {
    auto most = sizes_.end();
    for (auto entry = sizes_.begin(); entry != sizes_.end(); ++entry) {
      if (most == sizes_.end() || entry->second.steps > most->second.steps) most = entry;
    }
    if (most == sizes_.end()) return std::nullopt;
    std::optional<Size> result = std::move(most->second);
    sizes_.erase(most);
    return result;
  }

 private:
  struct DecodeFirst {
    bool operator()(const std::pair<StepKind, int32_t>& a, const std::pair<StepKind, int32_t>& b) const {
      if (a.first != b.first) return a.first == StepKind::kDecode;
      return a.second < b.second;
    }
  };
  std::map<std::pair<StepKind, int32_t>, Size, DecodeFirst> sizes_;
};

}  // namespace reprise::replay
