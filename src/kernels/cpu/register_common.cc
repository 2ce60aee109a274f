#include "kernels/cpu/register_common.h"

#include <algorithm>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/product_tuning.h"

namespace reprise::kernels::cpu {
namespace {

[[noreturn]] void fail_strides(const ops::OpCall& call, std::initializer_list<const Tensor*> tensors) {
  const auto strided =
      std::find_if(tensors.begin(), tensors.end(), [](const Tensor* t) { return !t->is_contiguous(); });
  const Tensor& tensor = strided == tensors.end() ? **tensors.begin() : **strided;
  throw Error(ErrorCode::kUnsupported, "{}: no kernel for the strides of {}", call.op.name(), tensor.meta().to_string())
      .remedy("make it contiguous with copy()");
}

/// Axes of a tensor after merging, outermost first; axes of size 1 are gone.
struct Axes {
  size_t count = 0;
  std::array<int64_t, Shape::kMaxRank> sizes{};
  std::array<std::array<int64_t, 4>, Shape::kMaxRank> strides{};  ///< [axis][tensor]
};

/// Merges neighbours among the first `axes` axes of tensors of one shape.
Axes merge_axes(std::initializer_list<const Tensor*> tensors, size_t axes) {
  Axes merged;
  const Tensor& first = **tensors.begin();
  for (size_t axis = 0; axis < axes; ++axis) {
    const int64_t size = first.size(axis);
    if (size == 1) continue;
    bool even = merged.count > 0;
    for (size_t t = 0; even && t < tensors.size(); ++t) {
      even = merged.strides[merged.count - 1][t] == tensors.begin()[t]->stride(axis) * size;
    }
    if (!even) merged.sizes[merged.count++] = 1;
    merged.sizes[merged.count - 1] *= size;
    for (size_t t = 0; t < tensors.size(); ++t) {
      merged.strides[merged.count - 1][t] = tensors.begin()[t]->stride(axis);
    }
  }
  return merged;
}

void require_format(const ops::OpCall& call, size_t input, const char* remedy) {
  const Tensor& weight = call.inputs[input];
  const Format format = packed_format(weight);
  if (weight.format() == format) return;
  throw Error(ErrorCode::kUnsupported, "{}: argument '{}' is {}, expected the format '{}'", call.op.name(),
              call.op.schema().tensors[input].name, weight.meta().to_string(), format.name())
      .remedy(remedy);
}

}  // namespace

RowsView view_as_rows(const ops::OpCall& call, std::initializer_list<const Tensor*> tensors, bool keep_last) {
  const Tensor& first = **tensors.begin();
  RowsView view;
  Axes axes = merge_axes(tensors, first.rank() - (keep_last ? 1 : 0));
  if (keep_last) {
    view.columns = first.size(first.rank() - 1);
  } else if (axes.count > 0) {
    bool dense = true;
    for (size_t t = 0; t < tensors.size(); ++t) dense = dense && axes.strides[axes.count - 1][t] == 1;
    if (dense) view.columns = axes.sizes[--axes.count];
  }
  if (axes.count > 1) fail_strides(call, tensors);
  if (axes.count == 1) {
    view.rows = axes.sizes[0];
    view.row_strides = axes.strides[0];
  }
  return view;
}

HeadsView view_as_heads(const ops::OpCall& call, const Tensor& tensor) {
  const size_t last = tensor.rank() - 1;
  const Axes axes = merge_axes({&tensor}, last);
  if (axes.count > 2) fail_strides(call, {&tensor});
  HeadsView view;
  view.width = tensor.size(last);
  if (axes.count > 0) {
    view.tokens = axes.sizes[0];
    view.token_stride = axes.strides[0][0];
  }
  if (axes.count > 1) {
    view.heads = axes.sizes[1];
    view.head_stride = axes.strides[1][0];
  }
  return view;
}

Format packed_format(const Tensor& weight) {
  if (weight.dtype() == DType::kI8) return Format("n16k4");
  return Format(element_of(weight) == Element::kF32 ? "n16" : "n16k2");
}

void require_packed(const ops::OpCall& call, size_t input) {
  require_format(call, input, "pack it once with pack_linear_weight()");
}

void require_packed_stack(const ops::OpCall& call, size_t input) {
  require_format(call, input, "pack each expert once with pack_linear_weight(), then stack them");
}

const float* float_vector(const ops::OpCall& call, size_t input) {
  const Tensor& vector = call.inputs[input];
  if (vector.dtype() == DType::kF32) return vector.data_as<float>();
  throw Error(ErrorCode::kUnsupported, "{}: argument '{}' is {}, which the kernels of this device take as float32 only",
              call.op.name(), call.op.schema().tensors[input].name, name_of(vector.dtype()))
      .remedy("cast() it once, when the model is loaded");
}

QuantizeScales quantize_scales(const ops::OpCall& call, size_t scale) {
  const auto step = [&](size_t input) { return call.inputs[input].size(0) == 1 ? int64_t{0} : int64_t{1}; };
  const size_t offset = scale + 1;
  const bool shifts = call.inputs[offset].defined();
  return {.scale = float_vector(call, scale),
          .offset = shifts ? float_vector(call, offset) : nullptr,
          .scale_step = step(scale),
          .offset_step = shifts ? step(offset) : 0};
}

namespace {

ProductTiles tiles_of(const ops::OpCall& call, const ops::ProductShape& shape) {
  const ops::OpKernel* kernel = call.op.kernel(kDeviceName);
  if (kernel == nullptr || kernel->tuning == nullptr) return {};
  return kProductTiles[kernel->tuning->way_of(shape)];
}

}  // namespace

ProductTiles product_tiles(const ops::OpCall& call, const Tensor& x, const Tensor& weight, int64_t rows) {
  return tiles_of(call, {x.dtype(), weight.dtype(), weight.size(1), weight.size(0), ops::rows_class(rows)});
}

ProductTiles grouped_product_tiles(const ops::OpCall& call, DType x, const Tensor& stack, int64_t rows) {
  const int64_t experts = stack.size(0);
  return tiles_of(call, {x, stack.dtype(), stack.size(2), stack.size(1), ops::rows_class(rows, experts), experts});
}

int64_t token_stride(const ops::OpCall& call, size_t input) {
  const Tensor& x = call.inputs[input];
  if (x.size(1) != 1 && x.stride(1) != x.size(2)) {
    ops::fail_argument(call, input, fmt::format("is {}: its heads must lie side by side", x.meta().to_string()));
  }
  return x.stride(0);
}

}  // namespace reprise::kernels::cpu
