// What stays the same over thousands of decode steps: captures, allocations, memory. All in counts.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <random>
#include <set>

#include "base/malloc_counter.h"
#include "harness/step_harness.h"

namespace reprise::replay {
namespace {

constexpr int32_t kLargestBatch = 32;
constexpr int32_t kPageSize = 16;
constexpr int32_t kPagesPerSequence = 8;
constexpr int32_t kFirstPage = kLargestBatch / kPageSize;  // behind the scratch slots

int64_t resident_pages() {
  int64_t total = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident;
}

/// Decode steps of random batches, made without an allocation.
class RandomSteps {
 public:
  RandomSteps() {
    for (std::vector<int32_t>* list : {&batch_.token_ids, &batch_.positions, &batch_.slots, &batch_.query_lengths,
                                       &batch_.kv_lengths, &batch_.block_tables}) {
      list->reserve(kLargestBatch * kPagesPerSequence);
    }
  }
  const StepBatch& next() {
    batch_.clear();
    batch_.max_pages = kPagesPerSequence;
    const auto rows = static_cast<int32_t>(1 + random_() % kLargestBatch);
    for (int32_t row = 0; row < rows; ++row) {
      const auto position = static_cast<int32_t>(random_() % (kPagesPerSequence * kPageSize));
      const int32_t first_page = kFirstPage + row * kPagesPerSequence;
      batch_.token_ids.push_back(static_cast<int32_t>(random_() % 512));
      batch_.positions.push_back(position);
      batch_.slots.push_back(first_page * kPageSize + position);
      batch_.query_lengths.push_back(1);
      batch_.kv_lengths.push_back(position + 1);
      for (int32_t page = 0; page < kPagesPerSequence; ++page) batch_.block_tables.push_back(first_page + page);
    }
    return batch_;
  }

 private:
  std::mt19937 random_{5};
  StepBatch batch_;
};

StepHarness::Options steady_options(Mode mode, device::UpdateOrder order) {
  StepHarness::Options options;
  options.model = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models/dense";
  options.mode = mode;
  options.poison = false;  // the steps read keys that no step has written
  options.max_running = kLargestBatch;
  options.page_size = kPageSize;
  options.pages_per_sequence = kPagesPerSequence;
  options.buckets = {};  // by rule
  options.update_order = order;
  return options;
}

}  // namespace

class SteadyState : public ::testing::TestWithParam<std::tuple<Mode, device::UpdateOrder, int>> {};

TEST_P(SteadyState, ThousandsOfRandomStepsCaptureEachBucketOnceAndAllocateNothing) {
  const auto [mode, order, wanted_steps] = GetParam();
  // Sanitizers see the same in fewer.
  const int steps = MallocCounter::available() ? wanted_steps : wanted_steps / 20;
  StepHarness harness(steady_options(mode, order));
  GraphRunner& runner = harness.runner();
  RandomSteps source;
  std::set<int32_t> used;
  const auto step = [&] {
    const StepBatch& batch = source.next();
    used.insert(bucket_for(runner.buckets(), batch.sequences()));
    runner.run(batch);
  };
  int warm_up = 0;
  for (; used.size() < runner.buckets().size(); ++warm_up) step();
  const device::DeviceCounters before = harness.device().counters();
  const size_t device_bytes = harness.device().memory_info().allocated_bytes;
  const int64_t pages_before = resident_pages();
  const MallocCounter mallocs;
  for (int i = 0; i < steps; ++i) step();
  EXPECT_EQ(mallocs.count(), 0);
  // Code and stack may be touched late; what grows with every step would come to more.
  const int64_t pages_allowed = MallocCounter::available() ? pages_before + 64 : std::numeric_limits<int64_t>::max();
  EXPECT_LE(resident_pages(), pages_allowed);

  int64_t pieces = 0;
  for (const CaptureReport::Bucket& bucket : runner.capture_report().buckets) pieces += bucket.pieces;
  EXPECT_EQ(runner.capture_report().buckets.size(), used.size()) << "a bucket was captured twice";
  const device::DeviceCounters after = harness.device().counters();
  EXPECT_EQ(after.captures, pieces);
  EXPECT_EQ(after.captures, before.captures);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(harness.device().memory_info().allocated_bytes, device_bytes);
  EXPECT_EQ(runner.counters().steps(StepKind::kDecode, StepReason::kReplayed), warm_up + steps);
}

INSTANTIATE_TEST_SUITE_P(Modes, SteadyState,
                         ::testing::Values(std::tuple(Mode::kFull, device::UpdateOrder::kUpdateThenReplay, 10000),
                                           std::tuple(Mode::kFull, device::UpdateOrder::kReplayThenUpdate, 2000),
                                           std::tuple(Mode::kPiecewise, device::UpdateOrder::kUpdateThenReplay, 2000)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param) == Mode::kFull ? "Full" : "Piecewise") +
                                  (std::get<1>(tested.param) == device::UpdateOrder::kReplayThenUpdate
                                       ? "UpdatedAfter"
                                       : "UpdatedBefore");
                         });

}  // namespace reprise::replay
