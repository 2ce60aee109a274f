#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"

namespace reprise::kernels::cpu {

/// Softmax of each row of logits, of which the largest top_k are kept in descending order; see ops/moe.h.
struct GatingArguments {
  const void* logits;
  const int32_t* token_count;  ///< rows from there on are padding; null: none is
  float* weights;              ///< [tokens, top_k]
  int32_t* experts;            ///< [tokens, top_k]
  int64_t tokens;
  int64_t expert_count;
  int64_t top_k;  ///< at most expert_count
  int64_t logits_row_stride;
  int64_t renormalize;  ///< 0 or 1
};
/// A tile is one row.
int64_t gating_tiles(int64_t tokens);

/// Sorts a choice [tokens, top_k] by expert.
struct RouteArguments {
  const int32_t* experts;
  int32_t* offsets;  ///< [expert_count + 1]
  int32_t* tokens;   ///< [token_count * top_k]
  int32_t* places;   ///< [token_count, top_k]
  int64_t token_count;
  int64_t top_k;
  int64_t expert_count;
};
/// Always one: each row's place depends on all rows before it.
int64_t route_tiles();
void route(const void* arguments, int64_t first, int64_t last);

/// Where a copy of each chosen expert lies; see ops/moe_place.h.
struct PlaceArguments {
  const int32_t* experts;    ///< [tokens, top_k]
  const int32_t* map;        ///< [expert_count, map_columns]: the number of copies, then their places
  const int32_t* positions;  ///< [tokens]: copies are drawn; null: always the first
  int32_t* places;           ///< [tokens, top_k]
  int64_t tokens;
  int64_t top_k;
  int64_t expert_count;
  int64_t map_columns;  ///< at least 2
};
/// A tile is one token.
int64_t place_tiles(int64_t tokens);
void place(const void* arguments, int64_t first, int64_t last);

/// out[t] = sum of weights[t, j] * y[places[t, j]] in ascending order of j; negative places are left out.
struct CombineArguments {
  const void* y;
  const float* weights;   ///< [tokens, top_k]
  const int32_t* places;  ///< [tokens, top_k]
  void* out;              ///< [tokens, columns] without gaps, elements as in y
  int64_t tokens;
  int64_t top_k;
  int64_t columns;
  int64_t y_row_stride;
};
/// A tile is a piece of a row of `out`.
int64_t combine_tiles(int64_t tokens, int64_t columns);

/// counts[e] += offsets[e + 1] - offsets[e].
struct CountRowsArguments {
  const int32_t* offsets;  ///< [experts + 1]
  int64_t* counts;
  int64_t experts;
};
/// Always one: there is next to nothing to do.
int64_t count_rows_tiles();
void count_rows(const void* arguments, int64_t first, int64_t last);

struct MoeKernels {
  KernelFunction gating[2];   ///< [element of the logits]
  KernelFunction combine[2];  ///< [element of y]
};
const MoeKernels& moe_kernels(InstructionSet set);

}  // namespace reprise::kernels::cpu
