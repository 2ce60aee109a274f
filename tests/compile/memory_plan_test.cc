#include "compile/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace reprise::compile {

TEST(MemoryPlan, IntervalsThatDoNotMeetShareMemory) {
  const std::vector<MemoryInterval> intervals = {{100, 0, 1}, {100, 2, 3}, {100, 4, 5}};
  const MemoryPlan plan = plan_memory(intervals);
  EXPECT_EQ(plan.bytes, 128u);
  EXPECT_EQ(plan.offsets, (std::vector<size_t>{0, 0, 0}));
}

TEST(MemoryPlan, NeighboursInTimeDoNotShare) {
  const std::vector<MemoryInterval> intervals = {{64, 0, 1}, {64, 1, 2}};
  EXPECT_EQ(plan_memory(intervals).bytes, 128u);
}

TEST(MemoryPlan, NothingToPlanNeedsNothing) {
  EXPECT_EQ(plan_memory({}).bytes, 0u);
  const std::vector<MemoryInterval> empty = {{0, 0, 9}};
  EXPECT_EQ(plan_memory(empty).bytes, 0u);
}

TEST(MemoryPlan, RandomIntervalsNeverOverlapAndStayNearTheLowerBound) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<MemoryInterval> intervals(random() % 60);
    for (MemoryInterval& interval : intervals) {
      interval.bytes = random() % 5000;
      interval.first = static_cast<int32_t>(random() % 100);
      interval.last = interval.first + static_cast<int32_t>(random() % 20);
    }
    const MemoryPlan plan = plan_memory(intervals);
    for (size_t a = 0; a < intervals.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % kAlignment, 0u);
      EXPECT_LE(plan.offsets[a] + intervals[a].bytes, plan.bytes);
      for (size_t b = 0; b < a; ++b) {
        if (intervals[a].first > intervals[b].last || intervals[b].first > intervals[a].last) continue;
        const bool apart = plan.offsets[a] + intervals[a].bytes <= plan.offsets[b] ||
                           plan.offsets[b] + intervals[b].bytes <= plan.offsets[a];
        EXPECT_TRUE(apart || intervals[a].bytes == 0 || intervals[b].bytes == 0);
      }
    }
    EXPECT_GE(plan.bytes, plan.peak_live_bytes);
    EXPECT_LE(plan.bytes, 2 * plan.peak_live_bytes + kAlignment);
  }
}

}  // namespace reprise::compile
