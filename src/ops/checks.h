#pragma once

#include <string_view>

#include "ops/op_def.h"

namespace reprise::ops {

/// That a call fits its schema: number of arguments, presence, kinds of attributes. For dispatchers and parsers; shape
/// functions may rely on it.
void check_call(const OpCall& call);

/// Checks that shape functions share. Each throws kInvalidArgument: "OP: argument 'NAME' ...".
void require_rank(const OpCall& call, size_t input, size_t rank);
void require_dtype(const OpCall& call, size_t input, DType dtype);
/// float32 or bfloat16.
void require_float(const OpCall& call, size_t input);
void require_shape(const OpCall& call, size_t input, const Shape& shape);
void require_plain(const OpCall& call, size_t input);
/// Plain memory in which the elements of the last axis lie side by side; outer axes may have any stride.
void require_dense_rows(const OpCall& call, size_t input);
void require_contiguous(const OpCall& call, size_t input);
/// The value of a dtype attribute that must be float32 or bfloat16.
DType float_dtype_attribute(const OpCall& call, size_t attribute);
/// The dtype of another argument.
void require_same_dtype(const OpCall& call, size_t input, size_t other);
/// Host lists 0 and 1 hold the query and KV lengths of `sequences` sequences with `rows` rows in all. While the values
/// are absent only the lists' lengths are checked. A KV length is 0 (padding) or at least the query length.
void require_sequences(const OpCall& call, Dim rows, Dim sequences);
/// As fail_argument, of a host list.
[[noreturn]] void fail_list(const OpCall& call, size_t list, std::string_view what);
/// The general form: `what` completes the sentence "OP: argument 'NAME' ...".
[[noreturn]] void fail_argument(const OpCall& call, size_t input, std::string_view what);

}  // namespace reprise::ops
