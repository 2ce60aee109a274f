#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/int8_linear.h"
#include "kernels/cpu/kernel_types.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/moe.h"

namespace reprise::kernels::cpu {

/// hidden = mul(silu(gate), up) of the rows of each expert, where [gate | up] = x * W[e]^T is stored on the way.
struct ExpertsUpArguments {
  GroupedLinearArguments product;  ///< of 2 * columns outputs, elements of y as those of x
  void* hidden;                    ///< [rows, columns] without gaps; rows of no expert are left as they are
  int64_t columns;
};
/// Tiles cut the columns. Weights whose gate does not fill its blocks are one tile: blocks of up lie across the cuts.
int64_t experts_up_tiles(int64_t columns);

/// y = hidden * W[e]^T of the rows of each expert, then the sum of each token's.
struct ExpertsDownArguments {
  GroupedLinearArguments product;
  CombineArguments sum;  ///< of the product's y
};
/// The same with int8 weights.
struct Int8ExpertsDownArguments {
  Int8GroupedLinearArguments product;
  CombineArguments sum;  ///< of the product's y
};
/// Tiles of both cut the columns.
int64_t experts_down_tiles(int64_t columns);

}  // namespace reprise::kernels::cpu
