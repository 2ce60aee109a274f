// Mixtures of experts through the runner: the same bits in every mode and batch, and padding that no expert sees.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "harness/step_harness.h"
#include "harness/step_runs.h"

namespace reprise::replay {
namespace {

struct Case {
  const char* model;
  DType dtype;
};

class MoeSteps : public ::testing::TestWithParam<Case> {
 protected:
  StepHarness::Options options(Mode mode, int threads = 1) const {
    StepHarness::Options result;
    result.model = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models" / GetParam().model;
    result.mode = mode;
    result.dtype = GetParam().dtype;
    result.threads = threads;
    return result;
  }
};

void expect_finite(const Rows& rows) {
  for (const std::vector<float>& row : rows) {
    for (const float value : row) ASSERT_TRUE(std::isfinite(value));
  }
}

}  // namespace

TEST_P(MoeSteps, GiveTheSameBitsInEveryModeOnAnyNumberOfThreads) {
  const Outcome eager = run_all_batches(options(Mode::kEager), 1);
  for (const Rows& rows : eager.logits) expect_finite(rows);
  for (const Mode mode : {Mode::kEager, Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
    for (const int threads : {1, 2, 5}) {
      EXPECT_EQ(run_all_batches(options(mode, threads), 1), eager)
          << name_of(mode) << " with " << threads << " threads";
    }
  }
  StepHarness::Options discrete = options(Mode::kFull, 2);
  discrete.discrete = true;
  EXPECT_EQ(run_all_batches(discrete, 1), eager) << "discrete memory";
}

TEST_P(MoeSteps, B39FiveRowsInABucketOfEightDoNotDependOnWhatThePaddingHolds) {
  std::vector<Rows> results;
  for (const bool poison : {true, false}) {
    StepHarness::Options one = options(Mode::kFull);
    one.poison = poison;
    StepHarness harness(one);
    for (int32_t i = 0; i < 8; ++i) harness.feed(i, std::vector<int32_t>(static_cast<size_t>(1 + i), 30 + i));
    harness.decode({0, 1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7, 8});
    results.push_back(harness.decode({0, 1, 2, 3, 4}, {9, 9, 9, 9, 9}));
    expect_finite(results.back());
    EXPECT_EQ(harness.runner().last_reason(), StepReason::kReplayed);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_P(MoeSteps, B53ARequestGetsTheSameBitsAloneAndInBatchesBeyondATile) {
  StepHarness::Options wide = options(Mode::kFull, 2);
  wide.max_running = 65;
  wide.pages_per_sequence = 2;
  wide.buckets = {1, 16, 32, 64, 65};
  StepHarness harness(wide);
  StepHarness alone(options(Mode::kEager));
  std::mt19937 random(3);
  for (const int32_t batch : {15, 16, 17, 33, 64, 65}) {
    std::vector<int32_t> sequences;
    std::vector<int32_t> prompts;
    for (int32_t i = 0; i < batch; ++i) {
      sequences.push_back(i);
      prompts.push_back(static_cast<int32_t>(random() % 512));
      harness.feed(i, {prompts.back()});
    }
    const std::vector<int32_t> next = random_tokens(random, static_cast<size_t>(batch));
    const Rows rows = harness.decode(sequences, next);
    EXPECT_EQ(harness.runner().last_reason(), StepReason::kReplayed);
    for (const int32_t row : {0, batch / 2, batch - 1}) {
      const auto index = static_cast<size_t>(row);
      alone.feed(0, {prompts[index]});
      EXPECT_EQ(alone.decode({0}, {next[index]})[0], rows[index]) << "row " << row << " of " << batch;
      alone.drop(0);
    }
    for (const int32_t sequence : sequences) harness.drop(sequence);
  }
}

TEST_P(MoeSteps, B53CountsTheRowsOfRealTokensOnly) {
  for (const Mode mode : {Mode::kEager, Mode::kFull, Mode::kPiecewise}) {
    StepHarness::Options counting = options(mode, 2);
    counting.count_expert_rows = true;
    StepHarness harness(counting);
    const int64_t top_k = std::string_view(GetParam().model).starts_with("moe-sparse-step") ? 8 : 2;
    for (int32_t i = 0; i < 5; ++i) harness.feed(i, {30 + i});
    // Five tokens in a bucket of eight.
    const Rows rows = harness.decode({0, 1, 2, 3, 4}, {9, 8, 7, 6, 5});
    expect_finite(rows);
    const std::vector<model::ExpertLoad> loads = harness.model().expert_load();
    EXPECT_FALSE(loads.empty());
    for (const model::ExpertLoad& load : loads) {
      EXPECT_EQ(std::accumulate(load.rows.begin(), load.rows.end(), int64_t{0}), (5 + 5) * top_k)
          << name_of(mode) << ", layer " << load.layer;
    }
    StepHarness plain(options(mode, 2));
    for (int32_t i = 0; i < 5; ++i) plain.feed(i, {30 + i});
    EXPECT_EQ(plain.decode({0, 1, 2, 3, 4}, {9, 8, 7, 6, 5}), rows) << "counting changes the numbers";
    EXPECT_TRUE(plain.model().expert_load().empty());
  }
}

TEST_P(MoeSteps, B49LeftoversOfALargeBatchReachNoSmallerOne) {
  StepHarness together(options(Mode::kFull, 2));
  StepHarness alone(options(Mode::kEager));
  prefill(together, 8);
  prefill(alone, 8);
  int32_t token = 3;
  for (const int32_t batch : {1, 8, 1, 8, 2, 7}) {
    const Rows rows = decode_first(together, batch, ++token);
    EXPECT_EQ(together.runner().last_reason(), StepReason::kReplayed);
    for (int32_t row = 0; row < batch; ++row) {
      EXPECT_EQ(alone.decode({row}, {token})[0], rows[static_cast<size_t>(row)]) << "row " << row << " of " << batch;
    }
  }
}

TEST_P(MoeSteps, B54WithoutPaddingExactSizesAreReplayed) {
  StepHarness::Options exact = options(Mode::kFull);
  exact.padding = false;
  exact.buckets = {1, 2, 5};
  StepHarness harness(exact);
  StepHarness eager(options(Mode::kEager));
  prefill(harness, 5);
  prefill(eager, 5);
  for (const int32_t batch : {5, 4, 2, 3, 1, 5}) {
    EXPECT_EQ(decode_first(harness, batch, 40 + batch), decode_first(eager, batch, 40 + batch)) << batch;
  }
  EXPECT_EQ(decodes(harness, StepReason::kReplayed), 4);
  EXPECT_EQ(decodes(harness, StepReason::kNoExactBucket), 2);
}

/// Nothing but copies of the same weights: a token's sum is taken in the order of its choice.
TEST_P(MoeSteps, GiveTheSameBitsWhereverTheirExpertsLie) {
  const Outcome expected = run_all_batches(options(Mode::kEager), 1);
  for (const Mode mode : {Mode::kEager, Mode::kFull, Mode::kPiecewise}) {
    for (const bool dynamic : {false, true}) {
      StepHarness::Options placed = options(mode, 2);
      placed.expert_placement = model::ExpertPlacementOptions{.location = {}, .redundant = 3, .dynamic = dynamic};
      EXPECT_EQ(run_all_batches(placed, 1), expected) << name_of(mode) << (dynamic ? ", drawn" : "");
    }
  }
}

/// Any places for the experts: each at one at least, in no order.
model::ExpertPlacement random_placement(int64_t experts, size_t places, std::mt19937& random) {
  model::ExpertPlacement placement = model::trivial_placement(experts, static_cast<int64_t>(places));
  for (size_t i = static_cast<size_t>(experts); i < places; ++i) {
    placement[i] = static_cast<int32_t>(random() % static_cast<uint32_t>(experts));
  }
  std::shuffle(placement.begin(), placement.end(), random);
  return placement;
}

TEST_P(MoeSteps, AreReplayedUnchangedAfterExpertsHaveMoved) {
  for (const Mode mode : {Mode::kEager, Mode::kFull, Mode::kPiecewise}) {
    for (const bool discrete : {false, true}) {
      if (discrete && mode != Mode::kFull) continue;
      StepHarness::Options movable = options(mode, 2);
      movable.discrete = discrete;
      movable.count_expert_rows = true;
      movable.expert_placement = model::ExpertPlacementOptions{.location = {}, .redundant = 4, .dynamic = true};
      StepHarness harness(movable);
      StepHarness still(options(mode, 2));
      model::ExpertPlaces& places = *harness.model().expert_places();
      places.reserve();
      prefill(harness, 5);
      prefill(still, 5);
      for (const int32_t batch : {5, 1}) EXPECT_EQ(decode_first(harness, batch, 7), decode_first(still, batch, 7));
      const device::DeviceCounters before = harness.device().counters();
      const int64_t method_calls = harness.runner().method_calls();
      std::mt19937 random(5);
      int64_t moved = 0;
      for (int32_t step = 0; step < 6; ++step) {
        for (size_t i = 0; i < places.layers(); ++i) {
          const int64_t experts = static_cast<int64_t>(places.load()[i].rows.size());
          moved += places.move(i, random_placement(experts, places.placement(i).size(), random));
        }
        const int32_t batch = step % 2 == 0 ? 5 : 1;
        EXPECT_EQ(decode_first(harness, batch, 11 + step), decode_first(still, batch, 11 + step)) << "step " << step;
      }
      EXPECT_GT(moved, 0);
      const device::DeviceCounters after = harness.device().counters();
      EXPECT_EQ(after.captures, before.captures);
      if (mode == Mode::kEager) continue;
      EXPECT_EQ(harness.runner().method_calls(), method_calls) << "traced again";
      EXPECT_EQ(after.allocations, before.allocations);
      EXPECT_EQ(decodes(harness, StepReason::kReplayed), 8);
      EXPECT_EQ(harness.runner().capture_report().recaptures + harness.runner().capture_report().variants, 0);
    }
  }
}

TEST_P(MoeSteps, CountTheRowsOfExpertsOverAllPlacements) {
  StepHarness::Options counting = options(Mode::kFull);
  counting.count_expert_rows = true;
  StepHarness still(counting);
  counting.expert_placement = model::ExpertPlacementOptions{.location = {}, .redundant = 4, .dynamic = true};
  StepHarness harness(counting);
  model::ExpertPlaces& places = *harness.model().expert_places();
  std::mt19937 random(6);
  for (int round = 0; round < 3; ++round) {
    for (StepHarness* one : {&harness, &still}) {
      for (int32_t i = 0; i < 5; ++i) one->feed(i, {30 + i, 31 * i, 7});
      decode_first(*one, 5, 3);
    }
    const std::vector<model::ExpertLoad> loads = harness.model().expert_load();
    const std::vector<model::ExpertLoad> expected = still.model().expert_load();
    ASSERT_EQ(loads.size(), expected.size());
    bool copies_shared = false;
    for (size_t i = 0; i < loads.size(); ++i) {
      EXPECT_EQ(loads[i].rows, expected[i].rows) << "layer " << loads[i].layer;
      const auto experts = static_cast<int64_t>(loads[i].rows.size());
      const int64_t copies_rows =
          std::accumulate(loads[i].place_rows.begin() + experts, loads[i].place_rows.end(), int64_t{0});
      copies_shared = copies_shared || (round == 0 && copies_rows > 0);
      places.move(i, random_placement(experts, loads[i].placement.size(), random));
    }
    EXPECT_TRUE(round > 0 || copies_shared);
  }
}

/// The operator that finds copies is in graphs only where there is a map to read.
TEST_P(MoeSteps, KnowOfNoMapUnlessExpertsArePlaced) {
  const auto has_map = [](StepHarness& harness) {
    const graph::Graph& graph = harness.runner().decode_graph();
    return std::any_of(graph.order().begin(), graph.order().end(),
                       [&](graph::NodeId id) { return graph.node(id).op->name() == "moe_place"; });
  };
  StepHarness plain(options(Mode::kFull));
  EXPECT_FALSE(has_map(plain));
  StepHarness::Options placed = options(Mode::kFull);
  placed.expert_placement = model::ExpertPlacementOptions{};
  StepHarness mapped(placed);
  EXPECT_TRUE(has_map(mapped));
}

INSTANTIATE_TEST_SUITE_P(Models, MoeSteps,
                         ::testing::Values(Case{"moe", DType::kF32}, Case{"moe", DType::kBF16},
                                           Case{"moe-sparse-step", DType::kF32}, Case{"moe-sparse-step", DType::kBF16},
                                           Case{"moe-w8a8-dynamic", DType::kF32},
                                           Case{"moe-w8a8-dynamic", DType::kBF16}),
                         [](const auto& tested) {
                           std::string name = fmt::format("{}_{}", tested.param.model, name_of(tested.param.dtype));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace reprise::replay
