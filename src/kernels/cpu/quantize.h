#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"

namespace reprise::kernels::cpu {

/// The scale and offset of a static quantisation: one value for all columns (step 0), or one for each (step 1).
struct QuantizeScales {
  const float* scale;
  const float* offset;  ///< or null
  int64_t scale_step;
  int64_t offset_step;
};

/// y = clamp(round(x * (1 / scale)) + offset, -128, 127) in float32, half to even, NaN to 0; for the swiglu kernels
/// x = silu(a) * b, each rounded to the element of a and b.
struct QuantizeArguments {
  const void* a;
  const void* b;  ///< swiglu only
  int8_t* y;      ///< [rows, columns]
  QuantizeScales scales;
  int64_t rows;
  int64_t columns;
  int64_t a_row_stride;
  int64_t b_row_stride;
};

/// scale = max|z| / 127 and y = round(z / scale) for each row, z = x * smooth_scales. A row of zeros gives the scale 0;
/// one with an infinity or a NaN gives a scale that is one.
struct DynamicQuantizeArguments {
  const void* a;
  const void* b;               ///< swiglu only
  const float* smooth_scales;  ///< [columns], or null
  int8_t* y;                   ///< [rows, columns]
  float* scales;               ///< [rows]
  int64_t rows;
  int64_t columns;
  int64_t a_row_stride;
  int64_t b_row_stride;
};
/// A tile is one row, in all of them.
int64_t quantize_tiles(int64_t rows);

/// Quantises each token's row of x as above (without smooth scales) and copies it to the token's places; what has none
/// is not read.
struct ScatterQuantizedArguments {
  const void* x;
  const int32_t* places;  ///< [tokens, top_k], all different but for negative ones, which are none
  int8_t* y;              ///< [tokens * top_k, columns]
  float* scales;          ///< [tokens * top_k]
  int64_t tokens;
  int64_t top_k;
  int64_t columns;
  int64_t x_row_stride;
};
/// Tiles are those of quantize_tiles(tokens).

struct QuantizeKernels {
  KernelFunction quantize[2];  ///< [element of a and b]
  KernelFunction swiglu_quantize[2];
  KernelFunction dynamic_quantize[2];
  KernelFunction swiglu_dynamic_quantize[2];
  KernelFunction scatter_quantized[2];  ///< [element of x]
};
const QuantizeKernels& quantize_kernels(InstructionSet set);

}  // namespace reprise::kernels::cpu
