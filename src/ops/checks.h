#pragma once

#include <string_view>

#include "ops/op_def.h"

namespace reprise::ops {

/// Checks that shape functions share. Each throws kInvalidArgument: "OP: argument 'NAME' ...".
void require_rank(const OpCall& call, size_t input, size_t rank);
void require_dtype(const OpCall& call, size_t input, DType dtype);
/// float32 or bfloat16.
void require_float(const OpCall& call, size_t input);
void require_shape(const OpCall& call, size_t input, const Shape& shape);
void require_plain(const OpCall& call, size_t input);
/// The general form: `what` completes the sentence "OP: argument 'NAME' ...".
[[noreturn]] void fail_argument(const OpCall& call, size_t input, std::string_view what);

}  // namespace reprise::ops
