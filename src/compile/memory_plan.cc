#include "compile/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace reprise::compile {
namespace {

size_t align(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool alive_together(const MemoryInterval& a, const MemoryInterval& b) { return a.first <= b.last && b.first <= a.last; }

size_t most_alive(std::span<const MemoryInterval> intervals) {
  int32_t nodes = 0;
  for (const MemoryInterval& interval : intervals) nodes = std::max(nodes, interval.last + 1);
  std::vector<int64_t> change(static_cast<size_t>(nodes) + 1);
  for (const MemoryInterval& interval : intervals) {
    change[static_cast<size_t>(interval.first)] += static_cast<int64_t>(align(interval.bytes));
    change[static_cast<size_t>(interval.last) + 1] -= static_cast<int64_t>(align(interval.bytes));
  }
  int64_t alive = 0;
  int64_t most = 0;
  for (const int64_t step : change) most = std::max(most, alive += step);
  return static_cast<size_t>(most);
}

}  // namespace

MemoryPlan plan_memory(std::span<const MemoryInterval> intervals) {
  MemoryPlan plan;
  plan.offsets.assign(intervals.size(), 0);
  plan.peak_live_bytes = most_alive(intervals);

  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return intervals[a].bytes > intervals[b].bytes; });

  std::vector<size_t> placed;  // by offset
  for (const size_t index : order) {
    const MemoryInterval& interval = intervals[index];
    if (interval.bytes == 0) continue;
    size_t offset = 0;
    for (const size_t other : placed) {
      if (!alive_together(interval, intervals[other])) continue;
      if (offset + align(interval.bytes) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + align(intervals[other].bytes));
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + align(interval.bytes));
    const auto place = std::upper_bound(placed.begin(), placed.end(), offset,
                                        [&](size_t value, size_t other) { return value < plan.offsets[other]; });
    placed.insert(place, index);
  }
  return plan;
}

}  // namespace reprise::compile
