// The same numbers in every mode: eager, traced, optimised node by node, and replayed from captured graphs.
#include <gtest/gtest.h>

#include <random>

#include "harness/step_harness.h"
#include "harness/step_runs.h"

namespace reprise::replay {
namespace {

const std::filesystem::path kModeModels = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models";

/// Of the computation, and whether keys and values are kept as int8.
struct Types {
  DType dtype;
  bool int8_kv;
};

StepHarness::Options mode_options(Mode mode, Types types, int threads = 1) {
  StepHarness::Options options;
  options.int8_kv = types.int8_kv;
  options.model = kModeModels / "dense";
  options.mode = mode;
  options.dtype = types.dtype;
  options.threads = threads;
  return options;
}

}  // namespace

class Modes : public ::testing::TestWithParam<Types> {};

TEST_P(Modes, GiveTheSameBitsForBatches1To9OnAnyNumberOfThreads) {
  const Outcome eager = run_all_batches(mode_options(Mode::kEager, GetParam()));
  for (const Rows& rows : eager.logits) {
    for (const std::vector<float>& row : rows) {
      for (const float value : row) ASSERT_TRUE(std::isfinite(value));
    }
  }
  for (const Mode mode : {Mode::kEager, Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
    for (const int threads : {1, 2, 5}) {
      EXPECT_EQ(run_all_batches(mode_options(mode, GetParam(), threads)), eager)
          << name_of(mode) << " with " << threads << " threads";
    }
  }
}

TEST_P(Modes, UpdatesAfterTheReplayGiveTheSameBits) {
  StepHarness::Options options = mode_options(Mode::kFull, GetParam(), 2);
  options.update_order = device::UpdateOrder::kReplayThenUpdate;
  EXPECT_EQ(run_all_batches(options), run_all_batches(mode_options(Mode::kEager, GetParam())));
}

TEST_P(Modes, PiecewiseGivesTheSameBitsInBothUpdateOrdersAndWithAnySplit) {
  const Outcome eager = run_all_batches(mode_options(Mode::kEager, GetParam()));
  for (const auto order : {device::UpdateOrder::kUpdateThenReplay, device::UpdateOrder::kReplayThenUpdate}) {
    for (const std::vector<std::string>& splits :
         std::vector<std::vector<std::string>>{{"paged_attention"}, {"store_kv", "linear"}, {"silu"}}) {
      StepHarness::Options options = mode_options(Mode::kPiecewise, GetParam(), 2);
      options.update_order = order;
      options.splitting_ops = splits;
      EXPECT_EQ(run_all_batches(options), eager) << splits[0];
    }
  }
}

TEST_P(Modes, DiscreteMemoryGivesTheSameBits) {
  StepHarness::Options options = mode_options(Mode::kFull, GetParam(), 2);
  options.discrete = true;
  EXPECT_EQ(run_all_batches(options), run_all_batches(mode_options(Mode::kEager, GetParam())));
}

INSTANTIATE_TEST_SUITE_P(DTypes, Modes,
                         ::testing::Values(Types{DType::kF32, false}, Types{DType::kBF16, false},
                                           Types{DType::kF32, true}, Types{DType::kBF16, true}),
                         [](const auto& tested) {
                           return std::string(name_of(tested.param.dtype)) + (tested.param.int8_kv ? "_int8_kv" : "");
                         });

TEST(GraphRunner, ARequestGetsTheSameBitsAloneAndAmongOthersHoweverItIsChunked) {
  for (const bool int8_kv : {false, true}) {
    std::mt19937 random(5);
    const std::vector<int32_t> prompt = random_tokens(random, 70);
    const std::vector<int32_t> next = random_tokens(random, 6);
    StepHarness alone(mode_options(Mode::kFull, {DType::kBF16, int8_kv}));
    Rows expected = {alone.feed(0, prompt).back()};
    for (const int32_t token : next) expected.push_back(alone.decode({0}, {token})[0]);
    const std::vector<std::byte> kv = alone.kv_contents(0);
    for (const int32_t chunk : {1, 5, 16, 33}) {
      StepHarness::Options options = mode_options(Mode::kFull, {DType::kBF16, int8_kv}, 2);
      options.page_size = 8;
      StepHarness harness(options);
      for (int32_t other = 0; other < 5; ++other) harness.feed(other, random_tokens(random, 9));
      Rows rows = {harness.feed(5, prompt, chunk).back()};
      for (const int32_t token : next) {
        rows.push_back(harness.decode({0, 1, 5, 3}, {token, 1, token, 2})[2]);
      }
      EXPECT_EQ(rows, expected) << "chunks of " << chunk;
      EXPECT_EQ(harness.kv_contents(5), kv) << "chunks of " << chunk;
    }
  }
}

}  // namespace reprise::replay
