#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"

namespace reprise::kernels::cpu {

/// Rotary position embedding in the half-split ("neox") form: with h = head_dim / 2 and the row [cos(h) | sin(h)] of
/// the table at the token's position,
///   y[i] = x[i] * cos[i] - x[i + h] * sin[i],  y[i + h] = x[i + h] * cos[i] + x[i] * sin[i]  for i < h,
/// in float32, products and sum each rounded, then rounded once at the store. A position outside the table gives
/// zeros. y may be x.
struct RopeArguments {
  const void* x;             ///< [tokens, heads, head_dim]
  const float* table;        ///< [max_position, head_dim]
  const int32_t* positions;  ///< [tokens]
  void* y;
  int64_t tokens;
  int64_t heads;
  int64_t head_dim;  ///< even
  int64_t max_position;
  int64_t x_token_stride;
  int64_t x_head_stride;
  int64_t y_token_stride;
  int64_t y_head_stride;
};
/// A tile is one head of one token.
int64_t rope_tiles(int64_t tokens, int64_t heads);

struct RopeKernels {
  KernelFunction rope[2];  ///< [element of x and y]
};
const RopeKernels& rope_kernels(InstructionSet set);

}  // namespace reprise::kernels::cpu
