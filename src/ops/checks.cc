#include "ops/checks.h"

#include "base/error.h"

namespace reprise::ops {

namespace {

constexpr std::string_view kAttributeNames[] = {"an int", "a float", "a bool", "a dtype", "a shape", "a string"};

}  // namespace

void check_call(const OpCall& call) {
  const Schema& schema = call.op.schema();
  if (call.inputs.size() != schema.tensors.size() || call.lists.size() != schema.lists.size() ||
      call.attributes.size() != schema.attributes.size()) [[unlikely]] {
    throw Error(ErrorCode::kInvalidArgument,
                "{}: called with {} tensors, {} host lists and {} attributes, expected {}, {} and {}", schema.name,
                call.inputs.size(), call.lists.size(), call.attributes.size(), schema.tensors.size(),
                schema.lists.size(), schema.attributes.size());
  }
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].defined() && !schema.tensors[i].optional) [[unlikely]]
      fail_argument(call, i, "is absent");
  }
  for (size_t i = 0; i < call.attributes.size(); ++i) {
    const AttributeSpec& spec = schema.attributes[i];
    if (call.attributes[i].index() != static_cast<size_t>(spec.kind)) [[unlikely]] {
      throw Error(ErrorCode::kInvalidArgument, "{}: attribute '{}' is {}, expected {}", schema.name, spec.name,
                  to_string(call.attributes[i]), kAttributeNames[static_cast<size_t>(spec.kind)]);
    }
  }
}

void fail_argument(const OpCall& call, size_t input, std::string_view what) {
  throw Error(ErrorCode::kInvalidArgument, "{}: argument '{}' {}", call.op.name(), call.op.schema().tensors[input].name,
              what);
}

void require_rank(const OpCall& call, size_t input, size_t rank) {
  const Tensor& tensor = call.inputs[input];
  if (tensor.rank() != rank) {
    fail_argument(call, input, fmt::format("has shape {}, expected {} dimensions", tensor.shape().to_string(), rank));
  }
}

void require_dtype(const OpCall& call, size_t input, DType dtype) {
  const DType got = call.inputs[input].dtype();
  if (got != dtype) fail_argument(call, input, fmt::format("has dtype {}, expected {}", name_of(got), name_of(dtype)));
}

void require_float(const OpCall& call, size_t input) {
  const DType got = call.inputs[input].dtype();
  if (got != DType::kF32 && got != DType::kBF16) {
    fail_argument(call, input, fmt::format("has dtype {}, expected float32 or bfloat16", name_of(got)));
  }
}

DType float_dtype_attribute(const OpCall& call, size_t attribute) {
  const DType dtype = call.dtype_attribute(attribute);
  if (dtype != DType::kF32 && dtype != DType::kBF16) {
    throw Error(ErrorCode::kInvalidArgument, "{}: attribute '{}' is {}, expected float32 or bfloat16", call.op.name(),
                call.op.schema().attributes[attribute].name, name_of(dtype));
  }
  return dtype;
}

void require_shape(const OpCall& call, size_t input, const Shape& shape) {
  const Shape& got = call.inputs[input].shape();
  if (!(got == shape)) {
    fail_argument(call, input, fmt::format("has shape {}, expected {}", got.to_string(), shape.to_string()));
  }
}

void require_plain(const OpCall& call, size_t input) {
  if (!call.inputs[input].format().is_plain()) {
    fail_argument(call, input,
                  fmt::format("has format '{}', expected plain memory", call.inputs[input].format().name()));
  }
}

void require_dense_rows(const OpCall& call, size_t input) {
  require_plain(call, input);
  const Tensor& tensor = call.inputs[input];
  if (tensor.rank() == 0) fail_argument(call, input, "has no axis");
  const size_t last = tensor.rank() - 1;
  if (tensor.stride(last) != 1 && tensor.shape()[last] != Dim(1)) {
    fail_argument(call, input,
                  fmt::format("has stride {} along its last axis, expected rows without gaps", tensor.stride(last)));
  }
}

void require_contiguous(const OpCall& call, size_t input) {
  if (!call.inputs[input].is_contiguous()) {
    fail_argument(call, input, fmt::format("is {}, expected contiguous memory", call.inputs[input].meta().to_string()));
  }
}

void require_same_dtype(const OpCall& call, size_t input, size_t other) {
  const DType got = call.inputs[input].dtype();
  const DType expected = call.inputs[other].dtype();
  if (got != expected) {
    fail_argument(call, input,
                  fmt::format("has dtype {}, expected {} as argument '{}'", name_of(got), name_of(expected),
                              call.op.schema().tensors[other].name));
  }
}

void fail_list(const OpCall& call, size_t list, std::string_view what) {
  throw Error(ErrorCode::kInvalidArgument, "{}: host list '{}' {}", call.op.name(), call.op.schema().lists[list].name,
              what);
}

void require_sequences(const OpCall& call, Dim rows, Dim sequences) {
  for (size_t i = 0; i < 2; ++i) {
    if (call.lists[i].length != sequences) {
      fail_list(call, i,
                fmt::format("has {} entries, expected {}", call.lists[i].length.to_string(), sequences.to_string()));
    }
  }
  if (call.lists[0].is_traced() || call.lists[1].is_traced()) return;
  const std::span<const int32_t> queries = call.lists[0].values;
  const std::span<const int32_t> keys = call.lists[1].values;
  int64_t total = 0;
  for (size_t s = 0; s < queries.size(); ++s) {
    if (queries[s] < 0) fail_list(call, 0, fmt::format("has the entry {} at {}", queries[s], s));
    if (keys[s] != 0 && keys[s] < queries[s]) {
      fail_list(call, 1,
                fmt::format("has the entry {} at {}, expected 0 or at least the {} rows of the sequence", keys[s], s,
                            queries[s]));
    }
    total += queries[s];
  }
  if (rows.is_constant() && total != rows.value()) {
    fail_list(call, 0, fmt::format("has the sum {}, expected one entry for each of {} rows", total, rows.value()));
  }
}

}  // namespace reprise::ops
