#include "engine/step_log.h"

#include <algorithm>

#include "base/median.h"

namespace reprise::engine {

void StepLog::add(const StepRecord& record) {
  records_[count_ % kCapacity] = record;
  ++count_;
  last_index_ = record.index;
}

void StepLog::copy_after(int64_t index, std::vector<StepRecord>& out) const {
  const size_t kept = std::min(count_, kCapacity);
  for (size_t i = count_ - kept; i < count_; ++i) {
    if (records_[i % kCapacity].index > index) out.push_back(records_[i % kCapacity]);
  }
}

double StepLog::median_gap() const {
  std::vector<float> gaps;
  for (size_t i = 0; i < std::min(count_, kCapacity); ++i) {
    if (records_[i].replayed && records_[i].gap_milliseconds > 0) gaps.push_back(records_[i].gap_milliseconds);
  }
  return gaps.empty() ? 0 : static_cast<double>(upper_median(gaps));
}

}  // namespace reprise::engine
