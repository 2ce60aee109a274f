#include "load/rope_table.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <numbers>

#include "base/error.h"

namespace reprise::load {
namespace {

/// theta ^ (2 i / head_dim) in float32.
float frequency_base(const RopeConfig& rope, int64_t head_dim, int64_t pair) {
  const float exponent = static_cast<float>(2 * pair) / static_cast<float>(head_dim);
  return static_cast<float>(std::pow(static_cast<double>(static_cast<float>(rope.theta)), exponent));
}

/// The dimension that turns `rotations` times over the original context (the paper's inverse of its equation 17).
double correction_dimension(const RopeConfig& rope, int64_t head_dim, double rotations) {
  const double context = static_cast<double>(rope.original_max_position_embeddings);
  return static_cast<double>(head_dim) * std::log(context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(rope.theta));
}

std::vector<float> yarn_frequencies(const RopeConfig& rope, int64_t head_dim) {
  double low = correction_dimension(rope, head_dim, rope.beta_fast);
  double high = correction_dimension(rope, head_dim, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;  // no division by zero

  std::vector<float> result(static_cast<size_t>(head_dim / 2));
  for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
    const float base = frequency_base(rope, head_dim, pair);
    const float extrapolated = 1.0f / base;
    const float interpolated = 1.0f / (static_cast<float>(rope.factor) * base);
    const float ramp =
        std::clamp((static_cast<float>(pair) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f, 1.0f);
    const float keep = 1.0f - ramp;
    result[static_cast<size_t>(pair)] = interpolated * (1.0f - keep) + extrapolated * keep;
  }
  return result;
}

double yarn_mscale(double factor, double mscale) { return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

}  // namespace

std::vector<float> inverse_frequencies(const RopeConfig& rope, int64_t head_dim) {
  if (rope.type == RopeType::kYarn) return yarn_frequencies(rope, head_dim);
  std::vector<float> result(static_cast<size_t>(head_dim / 2));
  for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
    float frequency = 1.0f / frequency_base(rope, head_dim, pair);
    if (rope.type == RopeType::kLinear) frequency /= static_cast<float>(rope.factor);
    result[static_cast<size_t>(pair)] = frequency;
  }
  return result;
}

double rope_attention_factor(const RopeConfig& rope) {
  if (rope.type != RopeType::kYarn) return 1.0;
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale.value_or(0.0) != 0.0 && rope.mscale_all_dim.value_or(0.0) != 0.0) {
    return yarn_mscale(rope.factor, *rope.mscale) / yarn_mscale(rope.factor, *rope.mscale_all_dim);
  }
  return yarn_mscale(rope.factor, 1.0);
}

RopeTable rope_table(const ModelConfig& config, int64_t positions) {
  if (positions < 1 || positions > INT32_MAX) {
    throw Error(ErrorCode::kInvalidArgument, "a table of rotary embeddings cannot have {} positions", positions);
  }
  RopeTable table{positions, config.head_dim, {}};
  try {
    table.values.resize(static_cast<size_t>(positions) * static_cast<size_t>(config.head_dim));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kOutOfMemory, "no memory for rotary embeddings of {} positions", positions);
  }
  const std::vector<float> frequencies = inverse_frequencies(config.rope, config.head_dim);
  const float factor = static_cast<float>(rope_attention_factor(config.rope));
  const size_t half = frequencies.size();
  for (int64_t position = 0; position < positions; ++position) {
    float* row = table.values.data() + static_cast<size_t>(position) * 2 * half;
    for (size_t pair = 0; pair < half; ++pair) {
      const double angle = static_cast<float>(position) * frequencies[pair];
      row[pair] = static_cast<float>(std::cos(angle)) * factor;
      row[half + pair] = static_cast<float>(std::sin(angle)) * factor;
    }
  }
  return table;
}

}  // namespace reprise::load
