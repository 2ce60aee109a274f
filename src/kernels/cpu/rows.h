#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"

namespace reprise::kernels::cpu {

/// Copies rows, converting the elements; narrowing rounds to nearest even, equal types are copied bit by bit.
struct CastArguments {
  const void* x;
  void* y;
  int64_t rows;
  int64_t columns;
  int64_t x_row_stride;
  int64_t y_row_stride;
};
/// A tile is one row.
int64_t cast_tiles(int64_t rows);

/// y[i] = table[ids[i]], converting the elements. An id outside the table gives a row of NaN (all bits set), which
/// nobody takes for a result.
struct GatherRowsArguments {
  const void* table;   ///< [table_rows, columns]
  const int32_t* ids;  ///< [rows]
  void* y;             ///< [rows, columns]
  int64_t rows;
  int64_t columns;
  int64_t table_rows;
  int64_t table_row_stride;
  int64_t y_row_stride;
};
/// A tile is one row.
int64_t gather_rows_tiles(int64_t rows);

/// key_cache[slots[t]] = key[t], value_cache[slots[t]] = value[t], converting the elements. Caches are
/// [pages, page_size, kv heads, head_dim] with slot = page * page_size + offset. A slot outside of them (negative for
/// padding) is skipped. If two tokens name one slot, which one stays is not defined. store_kv_int8 quantises each head
/// of a token and writes its scale.
struct StoreKvArguments {
  const void* key;       ///< [tokens, columns]
  const void* value;     ///< [tokens, columns]
  const int32_t* slots;  ///< [tokens]
  void* key_cache;
  void* value_cache;
  float* key_scales;    ///< [pages, page_size, kv heads]; of store_kv_int8 alone, as head_dim
  float* value_scales;  ///< the same shape
  int64_t tokens;
  int64_t columns;  ///< kv heads * head_dim
  int64_t head_dim;
  int64_t slot_count;  ///< pages * page_size
  int64_t key_row_stride;
  int64_t value_row_stride;
};
/// A tile is one token.
int64_t store_kv_tiles(int64_t tokens);

struct RowKernels {
  KernelFunction cast[3][2];         ///< [element of x: also kF16][element of y]
  KernelFunction gather_rows[2][2];  ///< [element of the table][element of y]
  KernelFunction store_kv[2][2];     ///< [element of key and value][element of the caches]
  KernelFunction store_kv_int8[2];   ///< [element of key and value]
};
const RowKernels& row_kernels(InstructionSet set);

}  // namespace reprise::kernels::cpu
