#include "ops/moe_place.h"

#include <fmt/core.h>
#include <algorithm>

#include "ops/checks.h"
#include "ops/dispatch_call.h"

namespace reprise::ops {
namespace {

constexpr size_t kChosen = 0, kPlaceMap = 1, kPlacePositions = 2;

void infer_place(const OpCall& call, std::span<TensorMeta> outputs) {
  for (const size_t input : {kChosen, kPlaceMap}) {
    require_dtype(call, input, DType::kI32);
    require_rank(call, input, 2);
    require_contiguous(call, input);
  }
  if (call.inputs[kPlaceMap].size(1) < 2) {
    fail_argument(call, kPlaceMap,
                  fmt::format("has {} columns, expected a number and places", call.inputs[kPlaceMap].size(1)));
  }
  if (call.inputs[kPlacePositions].defined()) {
    require_dtype(call, kPlacePositions, DType::kI32);
    require_shape(call, kPlacePositions, Shape{call.inputs[kChosen].shape()[0]});
    require_contiguous(call, kPlacePositions);
  }
  outputs[0] = TensorMeta(DType::kI32, call.inputs[kChosen].shape());
}

void reference_place(const OpCall& call) {
  const auto* experts = call.inputs[kChosen].data_as<int32_t>();
  const auto* map = call.inputs[kPlaceMap].data_as<int32_t>();
  const int64_t columns = call.inputs[kPlaceMap].size(1);
  const int64_t top_k = call.inputs[kChosen].size(1);
  for (int64_t i = 0; i < call.inputs[kChosen].shape().elements(); ++i) {
    int32_t& place = call.outputs[0].data_as<int32_t>()[i];
    place = -1;
    if (experts[i] < 0 || experts[i] >= call.inputs[kPlaceMap].size(0)) continue;
    const int32_t* row = map + experts[i] * columns;
    const int64_t copies = std::min<int64_t>(row[0], columns - 1);
    if (copies < 1) continue;
    uint64_t drawn = 0;
    if (call.inputs[kPlacePositions].defined()) {
      const auto token = static_cast<uint32_t>(i / top_k);
      const auto position = static_cast<uint32_t>(call.inputs[kPlacePositions].data_as<int32_t>()[token]);
      uint32_t hash = position * 0x9E3779B1u + token * 0x85EBCA77u;
      hash = (hash ^ (hash >> 15)) * 0x2C1B3C6Du;
      hash ^= hash >> 12;
      drawn = (uint64_t{hash} * static_cast<uint64_t>(copies)) >> 32;
    }
    place = row[1 + drawn];
  }
}

}  // namespace

Tensor moe_place(ForwardContext& context, const Tensor& experts, const Tensor& map, const Tensor& positions,
                 std::source_location where) {
  return dispatch_call(context, "moe_place", {experts, map, positions}, {}, {}, where);
}

void register_moe_place(Registry& registry) {
  // What a row is depends on its number.
  registry.add(OpDef("moe_place(Tensor experts, Tensor map, Tensor? positions) -> Tensor places",
                     {.rowwise = false, .rounding = Rounding::kNone}, infer_place, reference_place));
}

}  // namespace reprise::ops
