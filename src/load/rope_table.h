#pragma once

#include <cstdint>
#include <vector>

#include "load/model_config.h"

namespace reprise::load {

/// Cosines and sines of rotary position embedding: values[p * head_dim + i] is the cosine of pair i (i < head_dim / 2)
/// at position p, values[p * head_dim + head_dim / 2 + i] its sine. Both carry the attention factor of YaRN.
struct RopeTable {
  int64_t positions = 0;
  int64_t head_dim = 0;
  std::vector<float> values;  ///< [positions, head_dim], row-major
};

/// The head_dim / 2 inverse frequencies, as Hugging Face's _compute_{default,linear_scaling,yarn}_parameters give them
/// in float32.
std::vector<float> inverse_frequencies(const RopeConfig& rope, int64_t head_dim);

/// What cosines and sines are multiplied by: YaRN's attention factor, else 1.
double rope_attention_factor(const RopeConfig& rope);

/// The table for positions 0 to positions - 1. Angles are position * inverse frequency in float32, as in Hugging Face;
/// cosine and sine are taken in double and rounded once. Throws kInvalidArgument for fewer than one position,
/// kOutOfMemory.
RopeTable rope_table(const ModelConfig& config, int64_t positions);

}  // namespace reprise::load
