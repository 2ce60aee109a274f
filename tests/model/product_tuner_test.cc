#include "model/product_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/cpu_topology.h"
#include "base/error.h"
#include "harness/step_runs.h"

namespace reprise::model {
namespace {

const std::filesystem::path kTunedModels = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models";

class ProductTuner : public ::testing::TestWithParam<const char*> {
 protected:
  replay::StepHarness::Options options() const {
    replay::StepHarness::Options options;
    options.model = kTunedModels / GetParam();
    options.dtype = DType::kBF16;
    return options;
  }
  bool has_experts() const { return std::string_view(GetParam()).starts_with("moe"); }
  /// Query, key and value are one product, and gate and up. With experts: the router, and the two stacks.
  size_t shapes() const { return has_experts() ? 6 : 5; }
};
INSTANTIATE_TEST_SUITE_P(Models, ProductTuner,
                         ::testing::Values("dense", "dense-w8a8-dynamic", "moe", "moe-w8a8-dynamic"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase(name, '-');
                           return name;
                         });

ops::ProductTuning& product_tuning_of(const ops::Registry& registry) {
  return *registry.get("linear").kernel("cpu")->tuning;
}

/// The last way for every product.
std::map<std::string, std::string> last_product_ways(const std::vector<TunedProduct>& products,
                                                     const ops::Registry& registry) {
  std::map<std::string, std::string> ways;
  for (const TunedProduct& product : products)
    ways[product.shape.to_string()] = product_tuning_of(registry).ways().back();
  return ways;
}

/// The products of a captured program, and how many of them go the last way.
std::pair<int, int> captured_products(replay::StepHarness& harness) {
  std::istringstream lines(harness.runner().program_text(1));
  int all = 0;
  int last = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto has = [&](const char* text) { return line.find(text) != std::string::npos; };
    if (!has("linear.") && !has("moe_experts.up.") && !has("moe_experts.down.")) continue;
    ++all;
    last += has(" 0x10 0x20") ? 1 : 0;
  }
  return {all, last};
}

TEST_P(ProductTuner, MeasuresEveryProductOfTheModelAndChoosesWhatItReports) {
  replay::StepHarness harness(options());
  const ops::ProductTuning& tuning = product_tuning_of(harness.registry());
  size_t told = 0;
  ProductTunerOptions tuner;
  tuner.seconds = 1e6;
  // Whatever comes first in the rounds is taken.
  tuner.least_gain = -10;
  tuner.progress = [&](size_t done, size_t total) {
    EXPECT_EQ(total, 4 * shapes());
    told = done;
  };
  const std::vector<TunedProduct> products =
      tune_products(harness.model(), harness.registry(), harness.device(), {}, tuner);
  ASSERT_EQ(products.size(), 4 * shapes());
  EXPECT_EQ(told, 4 * shapes());
  const auto of_experts = std::count_if(products.begin(), products.end(), [](const TunedProduct& product) {
    return product.shape.experts == 8 && product.shape.to_string().find(", 8 experts of ") != std::string::npos;
  });
  EXPECT_EQ(of_experts, has_experts() ? 2 * 4 : 0);
  for (const TunedProduct& product : products) {
    EXPECT_TRUE(product.measured);
    EXPECT_EQ(tuning.ways()[tuning.way_of(product.shape)], product.way);
    EXPECT_EQ(product.is_default, tuning.way_of(product.shape) == tuning.default_way(product.shape));
  }
}

TEST_P(ProductTuner, TakesWhatIsKnownWithoutMeasuringAndCapturesUseIt) {
  replay::StepHarness plain(options());
  const auto [all, none] = captured_products(plain);
  EXPECT_EQ(none, 0);
  ProductTunerOptions tuner;
  tuner.seconds = 1e6;
  const auto known =
      last_product_ways(tune_products(plain.model(), plain.registry(), plain.device(), {}, tuner), plain.registry());
  replay::StepHarness harness(options());
  for (const TunedProduct& product : tune_products(harness.model(), harness.registry(), harness.device(), known)) {
    EXPECT_FALSE(product.measured);
    EXPECT_FALSE(product.is_default);
  }
  EXPECT_GT(all, 0);
  EXPECT_EQ(captured_products(harness), std::pair(all, all));
}

TEST_P(ProductTuner, LeavesWhatTheTimeDoesNotSufficeForAsItIs) {
  replay::StepHarness harness(options());
  ProductTunerOptions tuner;
  tuner.seconds = 0;
  EXPECT_TRUE(tune_products(harness.model(), harness.registry(), harness.device(), {}, tuner).empty());
  // A way of another program is no way here: the product would be measured.
  const std::map<std::string, std::string> unknown = {{"int8 x int8, 96 to 256, 1 row", "backwards"},
                                                      {"bfloat16 x bfloat16, 96 to 256, 1 row", "backwards"}};
  EXPECT_TRUE(tune_products(harness.model(), harness.registry(), harness.device(), unknown, tuner).empty());
}

TEST_P(ProductTuner, NoWayChangesABit) {
  replay::StepHarness::Options plain = options();
  plain.threads = 2;
  const replay::Outcome expected = replay::run_all_batches(plain, 1);
  for (size_t way = 1; way < 8; way += 2) {
    replay::StepHarness::Options other = plain;
    other.prepare = [way](ops::Registry& registry) { product_tuning_of(registry).force(way); };
    EXPECT_EQ(replay::run_all_batches(other, 1), expected) << way;
  }
}

TEST(ProductTuning, ClassesOfRowsHoldTheRowsThatStandForThem) {
  for (const ops::RowsClass rows : ops::kRowsClasses) EXPECT_EQ(ops::rows_class(ops::typical_rows(rows)), rows);
  EXPECT_EQ(ops::rows_class(0), ops::RowsClass::kOne);
  EXPECT_EQ(ops::rows_class(2), ops::RowsClass::kFew);
  EXPECT_EQ(ops::rows_class(9), ops::RowsClass::kSome);
  EXPECT_EQ(ops::rows_class(64), ops::RowsClass::kSome);
  EXPECT_EQ(ops::rows_class(65), ops::RowsClass::kMany);
}

TEST(ProductTuning, ClassesOfExpertsGoByTheRowsOfEach) {
  EXPECT_EQ(ops::rows_class(8, 64), ops::RowsClass::kOne);
  EXPECT_EQ(ops::rows_class(64, 64), ops::RowsClass::kOne);
  EXPECT_EQ(ops::rows_class(65, 64), ops::RowsClass::kFew);
  EXPECT_EQ(ops::rows_class(64 * 64, 64), ops::RowsClass::kSome);
  EXPECT_EQ(ops::rows_class(64 * 64 + 1, 64), ops::RowsClass::kMany);
  EXPECT_EQ(ops::rows_class(0, 64), ops::RowsClass::kOne);
}

TEST(ProductTuning, ForcesOneShapeOfAnyRowsAlone) {
  ops::ProductTuning tuning({"default", "other"});
  const ops::ProductShape shape{DType::kI8, DType::kI8, 64, 128, ops::RowsClass::kFew, 8};
  tuning.force(1, shape);
  EXPECT_EQ(tuning.way_of(shape), 1u);
  EXPECT_EQ(tuning.way_of({DType::kI8, DType::kI8, 64, 128, ops::RowsClass::kMany, 8}), 1u);
  EXPECT_EQ(tuning.way_of({DType::kI8, DType::kI8, 64, 128, ops::RowsClass::kFew, 0}), 0u);
  EXPECT_EQ(tuning.way_of({DType::kI8, DType::kI8, 128, 64, ops::RowsClass::kFew, 8}), 0u);
  tuning.force(std::nullopt);
  EXPECT_EQ(tuning.way_of(shape), 0u);
}

TEST(ProductTuning, KeepsShapesApartAndFallsBackToTheDefault) {
  ops::ProductTuning tuning({"default", "other"});
  const ops::ProductShape shape{DType::kBF16, DType::kBF16, 64, 128, ops::RowsClass::kFew};
  tuning.choose(shape, 1);
  EXPECT_EQ(tuning.way_of(shape), 1u);
  for (const ops::ProductShape& other : {ops::ProductShape{DType::kF32, DType::kBF16, 64, 128, ops::RowsClass::kFew},
                                         {DType::kBF16, DType::kF32, 64, 128, ops::RowsClass::kFew},
                                         {DType::kBF16, DType::kBF16, 63, 128, ops::RowsClass::kFew},
                                         {DType::kBF16, DType::kBF16, 64, 129, ops::RowsClass::kFew},
                                         {DType::kBF16, DType::kBF16, 64, 128, ops::RowsClass::kFew, 8},
                                         {DType::kBF16, DType::kBF16, 64, 128, ops::RowsClass::kOne}}) {
    EXPECT_EQ(tuning.way_of(other), 0u);
    EXPECT_NE(other.to_string(), shape.to_string());
  }
  tuning.force(0);
  EXPECT_EQ(tuning.way_of(shape), 0u);
  tuning.force(std::nullopt);
  tuning.choose(shape, 0);
  EXPECT_EQ(tuning.way_of(shape), 0u);
  EXPECT_THROW(tuning.choose(shape, 2), Error);
  EXPECT_THROW(tuning.force(2), Error);
}

TEST(ProductTuning, WeightsThatACacheHoldsHaveADefaultOfTheirOwn) {
  ops::ProductTuning tuning({"usual", "other", "cached"}, {.way = 2, .bytes = 1000});
  const auto shape = [](ops::RowsClass rows) { return ops::ProductShape{DType::kBF16, DType::kBF16, 64, 128, rows}; };
  EXPECT_EQ(tuning.way_of(shape(ops::RowsClass::kOne)), 0u);
  tuning.expect_weights(1000);
  EXPECT_EQ(tuning.way_of(shape(ops::RowsClass::kOne)), 2u);
  EXPECT_EQ(tuning.default_way(shape(ops::RowsClass::kFew)), 2u);
  EXPECT_EQ(tuning.default_way(shape(ops::RowsClass::kSome)), 0u);
  for (const size_t way : {size_t{0}, size_t{1}, size_t{2}}) {
    tuning.choose(shape(ops::RowsClass::kOne), way);
    EXPECT_EQ(tuning.way_of(shape(ops::RowsClass::kOne)), way);
  }
  tuning.expect_weights(1001);
  EXPECT_EQ(tuning.way_of(shape(ops::RowsClass::kOne)), 0u);
  EXPECT_THROW(ops::ProductTuning({"usual"}, {.way = 1}), Error);
}

TEST(ProductTuning, SingleRowsOfInt8HaveADefaultOfTheirOwn) {
  ops::ProductTuning tuning({"usual", "int8 row", "cached"}, {.way = 2, .bytes = 1000}, {.way = 1});
  const ops::ProductShape row{DType::kI8, DType::kI8, 64, 128, ops::RowsClass::kOne};
  EXPECT_EQ(tuning.default_way(row), 1u);
  EXPECT_EQ(tuning.default_way({DType::kI8, DType::kI8, 64, 128, ops::RowsClass::kFew}), 0u);
  EXPECT_EQ(tuning.default_way({DType::kBF16, DType::kBF16, 64, 128, ops::RowsClass::kOne}), 0u);
  tuning.choose(row, 0);
  EXPECT_EQ(tuning.way_of(row), 0u);
  tuning.expect_weights(1000);
  EXPECT_EQ(tuning.default_way(row), 2u);
  EXPECT_THROW(ops::ProductTuning({"usual"}, {}, {.way = 1}), Error);
}

TEST(ProductTuning, IsToldWhatALoadedModelWeighs) {
  replay::StepHarness::Options options;
  options.model = kTunedModels / "dense";
  replay::StepHarness harness(options);
  if (!last_level_cache_bytes()) GTEST_SKIP() << "the size of the cache is not known here";
  const ops::ProductTuning& tuning = product_tuning_of(harness.registry());
  EXPECT_EQ(tuning.ways()[tuning.default_way({DType::kF32, DType::kF32, 64, 64, ops::RowsClass::kOne})],
            "panels of 16 blocks, 0 lines ahead");
  EXPECT_EQ(tuning.default_way({DType::kF32, DType::kF32, 64, 64, ops::RowsClass::kMany}), 0u);
}

}  // namespace
}  // namespace reprise::model
