#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// Row ids[t] of the table, as `dtype`. ids int32 [T], table [V, H] float32 or bfloat16, result [T, H]. An id outside
/// of the table gives NaN, which nobody takes for a result.
Tensor embedding(ForwardContext& context, const Tensor& ids, const Tensor& table, DType dtype,
                 std::source_location where = std::source_location::current());

/// Rows rows[b] of x. x [T, H] float32 or bfloat16, rows int32 [B], result [B, H]. A row outside of x gives NaN.
Tensor gather_rows(ForwardContext& context, const Tensor& x, const Tensor& rows,
                   std::source_location where = std::source_location::current());

/// Checks of a lookup of `rows` in `table`, both arguments by their place.
void require_lookup(const OpCall& call, size_t rows, size_t table);
/// For references: row i of `result` is row rows[i] of `table`, NaN outside of it.
void reference_lookup_of(const Tensor& rows, const Tensor& table, const Tensor& result);

void register_embedding(Registry& registry);

}  // namespace reprise::ops
