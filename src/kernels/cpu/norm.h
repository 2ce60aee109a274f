#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"

namespace reprise::kernels::cpu {

/// y = x * (1 / sqrt(mean(x^2) + epsilon)) * weight + bias over the last axis of [tokens, heads, width], all in float32
/// and rounded once at the store. One head is the plain norm of rows. y may be x.
struct RmsNormArguments {
  const void* x;
  const float* weight;  ///< [width]
  void* y;
  int64_t tokens;
  int64_t heads;
  int64_t width;
  int64_t x_token_stride;
  int64_t x_head_stride;
  int64_t y_token_stride;
  int64_t y_head_stride;
  float epsilon;
  float unused = 0;             ///< fills the gap
  const float* bias = nullptr;  ///< [width], or null
};
/// A tile is one row of `width` values.
int64_t rms_norm_tiles(int64_t tokens, int64_t heads);

struct NormKernels {
  KernelFunction rms_norm[2];  ///< [element of x and y]
};
const NormKernels& norm_kernels(InstructionSet set);

}  // namespace reprise::kernels::cpu
