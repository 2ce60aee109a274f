#include "load/rope_table.h"

#include <cmath>

#include "load/test_files.h"

namespace reprise::load {
namespace {

ModelConfig scaled_config(const std::string& rope_scaling) {
  return ModelConfig::parse(R"({"model_type":"qwen3","head_dim":32,"max_position_embeddings":256,"rope_theta":1e6,)"
                            R"("rope_scaling":)" +
                            rope_scaling + "}");
}

/// The YaRN frequencies by the paper (arXiv:2309.00071), evaluated in double: frequencies that turn more than beta_fast
/// times over the original context stay, those below beta_slow are divided by the factor, a ramp lies between.
std::vector<double> yarn_by_the_paper(double theta, int dim, double context, double factor, double fast, double slow) {
  const auto dimension = [&](double turns) {
    // theta^(2d/dim) * 2 pi * turns = context, solved for d.
    return dim * std::log(context / (turns * 2.0 * M_PI)) / (2.0 * std::log(theta));
  };
  const double low = std::max(std::floor(dimension(fast)), 0.0);
  const double high = std::min(std::ceil(dimension(slow)), dim - 1.0);
  std::vector<double> result;
  for (int pair = 0; pair < dim / 2; ++pair) {
    const double plain = std::pow(theta, -2.0 * pair / dim);
    const double ramp = std::min(std::max((pair - low) / (high - low), 0.0), 1.0);
    result.push_back(plain * (1.0 - ramp) + plain / factor * ramp);
  }
  return result;
}

TEST(RopeTable, PlainFrequenciesArePowersOfTheta) {
  const std::vector<float> frequencies = inverse_frequencies(scaled_config("null").rope, 32);
  ASSERT_EQ(frequencies.size(), 16u);
  EXPECT_EQ(frequencies[0], 1.0f);
  for (size_t i = 0; i < 16; ++i) {
    const double expected = std::pow(1e6, -2.0 * static_cast<double>(i) / 32.0);
    EXPECT_NEAR(frequencies[i], expected, 2e-7 * expected) << i;
  }
}

TEST(RopeTable, LinearScalingDividesFrequencies) {
  const std::vector<float> plain = inverse_frequencies(scaled_config("null").rope, 32);
  const std::vector<float> scaled = inverse_frequencies(scaled_config(R"({"type":"linear","factor":4.0})").rope, 32);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(scaled[i], plain[i] / 4.0f);
}

TEST(RopeTable, YarnFrequenciesFollowThePaper) {
  const ModelConfig config =
      scaled_config(R"({"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32})");
  const std::vector<float> frequencies = inverse_frequencies(config.rope, 32);
  const std::vector<double> expected = yarn_by_the_paper(1e6, 32, 32.0, 4.0, 32.0, 1.0);
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(frequencies[i], expected[i], 3e-7 * expected[i]) << i;
  // The ramp is inside: the fastest stays, the slowest is interpolated.
  const std::vector<float> plain = inverse_frequencies(scaled_config("null").rope, 32);
  EXPECT_EQ(frequencies[0], plain[0]);
  EXPECT_NEAR(frequencies[15], plain[15] / 4.0f, 1e-12);

  const ModelConfig wide = scaled_config(
      R"({"rope_type":"yarn","factor":8,"original_max_position_embeddings":4096,"beta_fast":16,"beta_slow":2})");
  const std::vector<double> by_paper = yarn_by_the_paper(1e6, 32, 4096.0, 8.0, 16.0, 2.0);
  const std::vector<float> by_table = inverse_frequencies(wide.rope, 32);
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(by_table[i], by_paper[i], 3e-7 * by_paper[i]) << i;
}

TEST(RopeTable, AttentionFactorIsTheFilesOrDerived) {
  EXPECT_EQ(rope_attention_factor(scaled_config("null").rope), 1.0);
  EXPECT_EQ(rope_attention_factor(scaled_config(R"({"type":"linear","factor":4.0})").rope), 1.0);
  EXPECT_DOUBLE_EQ(rope_attention_factor(scaled_config(R"({"type":"yarn","factor":4.0})").rope),
                   0.1 * std::log(4.0) + 1.0);
  EXPECT_EQ(rope_attention_factor(scaled_config(R"({"type":"yarn","factor":4.0,"attention_factor":1.25})").rope), 1.25);
  EXPECT_EQ(rope_attention_factor(scaled_config(R"({"type":"yarn","factor":0.5})").rope), 1.0);
  EXPECT_DOUBLE_EQ(
      rope_attention_factor(scaled_config(R"({"type":"yarn","factor":4.0,"mscale":2.0,"mscale_all_dim":0.5})").rope),
      (0.2 * std::log(4.0) + 1.0) / (0.05 * std::log(4.0) + 1.0));
}

TEST(RopeTable, RowsHoldCosinesThenSinesWithTheFactor) {
  const ModelConfig config =
      scaled_config(R"({"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32})");
  const RopeTable table = rope_table(config, 256);
  ASSERT_EQ(table.values.size(), 256u * 32u);
  const std::vector<float> frequencies = inverse_frequencies(config.rope, 32);
  const double factor = rope_attention_factor(config.rope);
  for (const size_t position : {size_t{0}, size_t{1}, size_t{37}, size_t{255}}) {
    for (size_t i = 0; i < 16; ++i) {
      const double angle = static_cast<float>(position) * frequencies[i];
      EXPECT_NEAR(table.values[position * 32 + i], std::cos(angle) * factor, 3e-7) << position << " " << i;
      EXPECT_NEAR(table.values[position * 32 + 16 + i], std::sin(angle) * factor, 3e-7) << position << " " << i;
    }
  }
}

TEST(RopeTable, RefusesImpossibleLengths) {
  EXPECT_EQ(error_of([] { rope_table(scaled_config("null"), 0); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([] { rope_table(scaled_config("null"), int64_t{1} << 40); }).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace reprise::load
