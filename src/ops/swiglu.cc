#include "ops/swiglu.h"

#include <cmath>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/norm.h"
#include "ops/reference_access.h"
#include "ops/views.h"

namespace reprise::ops {
namespace {

TensorMeta check_gate_and_up(const OpCall& call) {
  require_float(call, 0);
  require_dense_rows(call, 0);
  require_same_dtype(call, 1, 0);
  require_shape(call, 1, call.inputs[0].shape());
  require_dense_rows(call, 1);
  return TensorMeta(call.inputs[0].dtype(), call.inputs[0].shape());
}

void infer_swiglu(const OpCall& call, std::span<TensorMeta> outputs) { outputs[0] = check_gate_and_up(call); }

void infer_swiglu_quantize(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[0] = check_gate_and_up(call);
  require_quantize_scales(call, 2, 3, call.inputs[0].dtype());
  outputs[0].dtype = DType::kI8;
}

void infer_swiglu_dynamic_quantize(const OpCall& call, std::span<TensorMeta> outputs) {
  check_gate_and_up(call);
  if (call.inputs[2].defined()) require_column_vector(call, 2);
  infer_dynamic_scales(call, outputs);
}

void swiglu_to(const OpCall& call, const Tensor& to) {
  const ScratchTensor activated(to.meta());
  const RowReader gate(call.inputs[0]);
  const RowReader up(call.inputs[1]);
  RowWriter silu(activated.tensor());
  const RowReader silu_again(activated.tensor());
  RowWriter y(to);
  for (int64_t row = 0; row < gate.rows(); ++row) {
    for (int64_t i = 0; i < gate.columns(); ++i) {
      const double value = gate(row, i);
      silu.set(row, i, static_cast<float>(value / (1.0 + std::exp(-value))));
      y.set(row, i, silu_again(row, i) * up(row, i));
    }
  }
}

void reference_swiglu(const OpCall& call) { swiglu_to(call, call.outputs[0]); }

void reference_swiglu_quantize(const OpCall& call) {
  const ScratchTensor y(TensorMeta(call.inputs[0].dtype(), call.inputs[0].shape()));
  swiglu_to(call, y.tensor());
  reference_quantize_of(y.tensor(), call.inputs[2], call.inputs[3], call.outputs[0]);
}

void reference_swiglu_dynamic_quantize(const OpCall& call) {
  const ScratchTensor y(TensorMeta(call.inputs[0].dtype(), call.inputs[0].shape()));
  swiglu_to(call, y.tensor());
  reference_dynamic_quantize_of(y.tensor(), call.inputs[2], call.outputs[0], call.outputs[1]);
}

}  // namespace

Tensor swiglu(ForwardContext& context, const Tensor& gate, const Tensor& up, std::source_location where) {
  return dispatch_call(context, "swiglu", {gate, up}, {}, {}, where);
}

Tensor swiglu(ForwardContext& context, const Tensor& gate_up, std::source_location where) {
  if (gate_up.rank() == 0 || gate_up.size(gate_up.rank() - 1) % 2 != 0) {
    throw Error(ErrorCode::kInvalidArgument, "swiglu: gate and up together have shape {}, expected an even last axis",
                gate_up.shape().to_string());
  }
  const int64_t axis = static_cast<int64_t>(gate_up.rank()) - 1;
  const int64_t width = gate_up.size(static_cast<size_t>(axis)) / 2;
  return swiglu(context, slice(context, gate_up, axis, 0, width, where),
                slice(context, gate_up, axis, width, 2 * width, where), where);
}

Tensor swiglu_quantize(ForwardContext& context, const Tensor& gate, const Tensor& up, const Tensor& scale,
                       const Tensor& offset, std::source_location where) {
  return dispatch_call(context, "swiglu_quantize", {gate, up, scale, offset}, {}, {}, where);
}

Quantized swiglu_dynamic_quantize(ForwardContext& context, const Tensor& gate, const Tensor& up,
                                  const Tensor& smooth_scales, std::source_location where) {
  auto [values, scales] = dispatch_call_of<2>(context, "swiglu_dynamic_quantize", {gate, up, smooth_scales}, {}, where);
  return {values, scales};
}

void register_swiglu(Registry& registry) {
  registry.add(OpDef("swiglu(Tensor gate, Tensor up) -> Tensor y", {}, infer_swiglu, reference_swiglu));
  registry.add(OpDef("swiglu_quantize(Tensor gate, Tensor up, Tensor scale, Tensor? offset) -> Tensor y", {},
                     infer_swiglu_quantize, reference_swiglu_quantize));
  registry.add(
      OpDef("swiglu_dynamic_quantize(Tensor gate, Tensor up, Tensor? smooth_scales) -> Tensor y, Tensor scales", {},
            infer_swiglu_dynamic_quantize, reference_swiglu_dynamic_quantize));
}

}  // namespace reprise::ops
