#include "kernels/ascend/register_ascend_kernels.h"

#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernels/ascend/register_families.h"

namespace reprise::kernels::ascend {
namespace {

/// Attention's mask of causal modes: a fixed size, whatever the lengths.
Tensor make_causal_mask(device::Device& device) {
  constexpr int64_t kSize = 2048;
  std::vector<uint8_t> mask(static_cast<size_t>(kSize * kSize));
  for (int64_t row = 0; row < kSize; ++row) {
    for (int64_t column = row + 1; column < kSize; ++column) mask[static_cast<size_t>(row * kSize + column)] = 1;
  }
  return device.import(TensorMeta(DType::kU8, {kSize, kSize}), std::as_bytes(std::span(mask)), nullptr);
}

Tensor make_one(device::Device& device) {
  const float one = 1;
  return device.import(TensorMeta(DType::kF32, {1}), std::as_bytes(std::span(&one, 1)), nullptr);
}

}  // namespace

void register_ascend_kernels(ops::Registry& registry, device::Device& device) {
  auto* stream = dynamic_cast<device::ascend::AscendStream*>(&device.default_stream());
  REPRISE_CHECK(stream != nullptr);
  const device::ascend::AclLibrary& library = stream->library();
  if (!library.features().has(device::ascend::Feature::kOperators)) {
    throw Error(ErrorCode::kUnsupported, "operators cannot be called: {}",
                library.features().why_not(device::ascend::Feature::kOperators))
        .remedy("install a newer CANN, or use --device cpu");
  }
  const char* soc = library.aclrtGetSocName();
  const bool newer_attention = soc != nullptr && std::string_view(soc).starts_with("Ascend950");
  const Resources resources = std::make_shared<const AscendResources>(
      AscendResources{library, AclnnTable(library), make_causal_mask(device), make_one(device), newer_attention,
                      std::make_unique<WorkspaceSizes>(), std::make_unique<ExecutorCache>(library)});
  register_elementwise(registry, resources);
  register_moves(registry, resources);
  register_rows(registry, resources);
  register_norms(registry, resources);
  register_quantize(registry, resources);
  register_linear(registry, resources);
  register_int8_linear(registry, resources);
  register_kv_cache(registry, resources);
  register_attention(registry, resources);
  register_convolution(registry, resources);
  register_moe(registry, resources);
  register_experts(registry, resources);
  register_places(registry, resources);
}

}  // namespace reprise::kernels::ascend
