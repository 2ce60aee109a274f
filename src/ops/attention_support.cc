#include "ops/attention_support.h"

#include <array>

#include "ops/host_list.h"

namespace reprise::ops {
namespace {

Tensor shape_of(DType dtype, const Shape& shape) { return Tensor(TensorMeta(dtype, shape), nullptr); }

}  // namespace

void check_attention_support(const Registry& registry, std::string_view device, const AttentionUse& use) {
  const OpDef& op = registry.get("paged_attention");
  const OpKernel* kernel = op.kernel(device);
  if (kernel == nullptr || kernel->plan == nullptr) return;
  constexpr int64_t kHeads = 1, kWidth = 64;
  const int32_t rows = use.prompts && use.page_size > 1 ? 2 : 1;
  const Shape cache{1, use.page_size, kHeads, kWidth};
  const Tensor scales = use.int8_cache ? shape_of(DType::kF32, {1, use.page_size, kHeads}) : Tensor();
  const Tensor keys = shape_of(use.int8_cache ? DType::kI8 : use.dtype, cache);
  const std::array inputs = {
      shape_of(use.dtype, {rows, kHeads, kWidth}), keys, keys, shape_of(DType::kI32, {1, 1}), scales, scales};
  const std::array lists = {HostList(std::span(&rows, 1)), HostList(std::span(&rows, 1))};
  const std::array<Attribute, 1> attributes = {1.0};
  Tiling tiling;
  kernel->plan({.op = op, .inputs = inputs, .lists = lists, .attributes = attributes, .outputs = {}}, tiling);
}

}  // namespace reprise::ops
