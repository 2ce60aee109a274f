#include "ops/checks.h"

#include "base/error.h"

namespace reprise::ops {

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

}  // namespace reprise::ops
