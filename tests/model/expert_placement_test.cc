#include "model/expert_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/error.h"
#include "load/test_files.h"

namespace reprise::model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> copies(const ExpertPlacement& placement, int64_t experts) {
  std::vector<int64_t> result(static_cast<size_t>(experts));
  for (const int32_t expert : placement) ++result[static_cast<size_t>(expert)];
  return result;
}

ExpertPlacement random_placement(int32_t experts, size_t places, std::mt19937& random) {
  ExpertPlacement placement = trivial_placement(experts, static_cast<int64_t>(places));
  for (size_t i = static_cast<size_t>(experts); i < places; ++i) {
    placement[i] = static_cast<int32_t>(random() % static_cast<uint32_t>(experts));
  }
  std::shuffle(placement.begin(), placement.end(), random);
  return placement;
}

load::ModelConfig config() {
  return load::ModelConfig::parse(
      R"({"model_type":"qwen3_moe","num_hidden_layers":3,"mlp_only_layers":[1],"num_experts":4,)"
      R"("num_experts_per_tok":2,"moe_intermediate_size":48,"hidden_size":64,"head_dim":16})");
}

std::vector<ExpertPlacement> place(const std::string& text, int64_t redundant = -1, int32_t ranks = 1) {
  const load::TemporaryDirectory directory;
  load::write_text_file(directory / "location.json", text);
  return place_experts(config(), {.location = directory / "location.json", .redundant = redundant, .ranks = ranks});
}

}  // namespace

TEST(ExpertPlacement, TheTrivialOneRepeatsFromTheFirstExpert) {
  EXPECT_THAT(trivial_placement(3, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(trivial_placement(3, 5), ElementsAre(0, 1, 2, 0, 1));
}

TEST(ExpertPlacement, TheBusiestExpertsGetTheCopies) {
  const std::vector<int64_t> rows = {10, 100, 10, 40};
  const ExpertPlacement placement = balanced_placement(rows, trivial_placement(4, 6), 1);
  EXPECT_THAT(copies(placement, 4), ElementsAre(1, 3, 1, 1)) << "33 each, below the 40 of expert 3";
  // Those that have a place keep it.
  EXPECT_THAT(placement, ElementsAre(0, 1, 2, 3, 1, 1));
}

TEST(ExpertPlacement, RanksGetEqualNumbersOfPlacesAndNearlyEqualLoads) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<int64_t> rows(16);
    for (int64_t& one : rows) one = static_cast<int64_t>(random() % 1000 * (random() % 5 == 0 ? 10 : 1));
    const ExpertPlacement before = random_placement(16, 24, random);
    const ExpertPlacement after = balanced_placement(rows, before, 4);
    ASSERT_EQ(after.size(), 24u);
    const std::vector<int64_t> number = copies(after, 16);
    EXPECT_EQ(*std::min_element(number.begin(), number.end()) > 0, true);
    // The load of a rank when copies share evenly.
    const auto peak = [&](const ExpertPlacement& placement) {
      const std::vector<int64_t> counts = copies(placement, 16);
      double most = 0;
      for (size_t rank = 0; rank < 4; ++rank) {
        double sum = 0;
        for (size_t i = 6 * rank; i < 6 * rank + 6; ++i) {
          const auto expert = static_cast<size_t>(placement[i]);
          sum += static_cast<double>(rows[expert]) / static_cast<double>(counts[expert]);
        }
        most = std::max(most, sum);
      }
      return most;
    };
    EXPECT_LE(peak(after), peak(before));
    EXPECT_LE(peak(after), 1.5 * static_cast<double>(std::accumulate(rows.begin(), rows.end(), int64_t{0})) / 4);
    // Nothing is better than what is balanced already.
    EXPECT_EQ(balanced_placement(rows, after, 4), after);
  }
}

TEST(ExpertPlacement, WithoutRowsEverythingStays) {
  const ExpertPlacement before = {3, 1, 0, 2, 2};
  EXPECT_EQ(balanced_placement(std::vector<int64_t>(4, 0), before, 1), before);
}

TEST(ExpertPlacement, TheMapHasTheNumberOfCopiesThenTheirPlaces) {
  EXPECT_THAT(placement_map({2, 0, 1, 0}, 3, 2), ElementsAre(2, 1, 3, 1, 2, -1, 1, 0, -1));
}

TEST(ExpertPlacement, BalancednessIsTheMeanOverTheMost) {
  EXPECT_DOUBLE_EQ(balancedness(std::vector<int64_t>{3, 1, 2, 2}, 1), 2.0 / 3);
  EXPECT_DOUBLE_EQ(balancedness(std::vector<int64_t>{3, 1, 2, 2}, 2), 1.0);
  EXPECT_DOUBLE_EQ(balancedness(std::vector<int64_t>{6, 0, 1, 1}, 2), 4.0 / 6);
  EXPECT_DOUBLE_EQ(balancedness(std::vector<int64_t>{0, 0}, 1), 1.0);
}

TEST(ExpertPlacement, MovesMakeAnyPlacementOfAnyOther) {
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    const auto experts = static_cast<int32_t>(1 + random() % 9);
    const size_t places = static_cast<size_t>(experts) + random() % 4;
    const ExpertPlacement from = random_placement(experts, places, random);
    const ExpertPlacement to = random_placement(experts, places, random);
    ExpertPlacement held = from;
    int32_t spare = -1;
    size_t copied = 0;
    for (const ExpertMove& move : plan_moves(from, to)) {
      const int32_t expert = move.from == ExpertMove::kSpare ? spare : held[static_cast<size_t>(move.from)];
      if (move.to == ExpertMove::kSpare) {
        spare = expert;
      } else {
        ++copied;
        held[static_cast<size_t>(move.to)] = expert;
      }
    }
    ASSERT_EQ(held, to);
    size_t different = 0;
    for (size_t i = 0; i < places; ++i) different += from[i] != to[i] ? 1 : 0;
    EXPECT_EQ(copied, different) << "a place was written twice, or in vain";
  }
}

TEST(ExpertPlacement, TwoRingsUseTheSpareMemoryOneAfterTheOther) {
  const std::vector<ExpertMove> moves = plan_moves({0, 1, 2, 3, 4}, {1, 0, 3, 4, 2});
  EXPECT_EQ(moves.size(), 5u + 2u);
}

TEST(ExpertPlacement, LayersWithoutExpertsHaveNone) {
  const std::vector<ExpertPlacement> placements = place_experts(config(), {.location = {}, .redundant = 2});
  ASSERT_EQ(placements.size(), 3u);
  EXPECT_THAT(placements[0], ElementsAre(0, 1, 2, 3, 0, 1));
  EXPECT_TRUE(placements[1].empty());
  EXPECT_EQ(placements[2], placements[0]);
}

TEST(ExpertPlacement, AFileSaysWhichExpertLiesAtEachPlaceOrWhatTheyHadToDo) {
  const auto placed = place(R"({"physical_to_logical_map": [[3, 2, 1, 0, 0], [], [0, 1, 2, 3, 3]]})");
  EXPECT_THAT(placed[0], ElementsAre(3, 2, 1, 0, 0));
  EXPECT_THAT(placed[2], ElementsAre(0, 1, 2, 3, 3));
  const auto counted = place(R"({"logical_count": [[1, 2, 9, 1], [], [9, 1, 1, 1]]})", 1);
  EXPECT_THAT(copies(counted[0], 4), ElementsAre(1, 1, 2, 1));
  EXPECT_THAT(copies(counted[2], 4), ElementsAre(2, 1, 1, 1));
}

TEST(ExpertPlacement, AFileThatDoesNotFitIsRefusedByItsPlace) {
  const auto message = [](const std::string& text, int64_t redundant = -1, int32_t ranks = 1) {
    return std::string(load::error_of([&] { place(text, redundant, ranks); }).what());
  };
  EXPECT_THAT(message("[1]"), HasSubstr("physical_to_logical_map"));
  EXPECT_THAT(message(R"({"physical_to_logical_map": [], "other": 1})"), HasSubstr("one key"));
  EXPECT_THAT(message(R"({"physical_to_logical_map": [[0, 1, 2, 3], []]})"), HasSubstr("has 2 layers"));
  EXPECT_THAT(message(R"({"physical_to_logical_map": [[0, 1, 2, 4], [], [0]]})"),
              HasSubstr("place 3 of layer 0 holds expert 4"));
  EXPECT_THAT(message(R"({"physical_to_logical_map": [[0, 1, 2, 2], [], [0]]})"),
              HasSubstr("expert 3 of layer 0 has no place"));
  EXPECT_THAT(message(R"({"physical_to_logical_map": [[0, 1, 2, 3], [], [0, 1, 2, 3, 1]]})"),
              HasSubstr("layer 2 has 5 places, expected 4"));
  EXPECT_THAT(message(R"({"physical_to_logical_map": [[0, 1, 2, 3], [], [0, 1, 2, 3]]})", 1),
              HasSubstr("layer 0 has 4 places, expected 5"));
  EXPECT_THAT(message(R"({"physical_to_logical_map": [[0, -1, 2, 3], [], []]})"),
              AllOf(HasSubstr("layer 0[1]"), HasSubstr("-1")));
  EXPECT_THAT(message(R"({"logical_count": [[1, 2, 3], [], [1]]})"), HasSubstr("counts of 3 experts, expected 4"));
  EXPECT_THAT(message(R"({"logical_count": [[1, 2, 3, 4], 7, [1]]})"), HasSubstr("layer 1 is 7"));
  EXPECT_THAT(message(R"({"physical_to_logical_map": [[0, 1, 2, 3], [], [0, 1, 2, 3]]})", -1, 3),
              HasSubstr("4 places of experts cannot be shared evenly by 3 ranks"));
  EXPECT_EQ(load::error_of([] { place_experts(config(), {.location = "/nonexistent.json"}); }).code(),
            ErrorCode::kNotFound);
}

TEST(ExpertPlacement, OptionsThatTheModelRulesOutAreRefused) {
  EXPECT_THAT(load::error_of([] { place_experts(config(), {.location = {}, .redundant = 29}); }).what(),
              HasSubstr("29 redundant experts"));
  EXPECT_THAT(load::error_of([] { place_experts(config(), {.location = {}, .redundant = 1, .ranks = 0}); }).what(),
              HasSubstr("0 ranks"));
  const auto dense = load::ModelConfig::parse(R"({"model_type":"qwen3"})");
  EXPECT_EQ(load::error_of([&] { place_experts(dense, {}); }).code(), ErrorCode::kInvalidArgument);
}

}  // namespace reprise::model
