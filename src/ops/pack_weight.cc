#include "ops/pack_weight.h"

#include <string>

#include "base/error.h"

namespace reprise::ops {
namespace {

constexpr std::string_view kOperator = "pack_linear_weight";

}  // namespace

PackedLayout packed_layout(const Registry& registry, std::string_view device, const TensorMeta& plain) {
  const OpDef& op = registry.get(kOperator);
  const Tensor weight(plain, nullptr);
  const Attribute attributes[] = {std::string()};
  const OpCall call{.op = op, .inputs = {&weight, 1}, .lists = {}, .attributes = attributes, .outputs = {}};
  PackedLayout layout;
  op.infer(call, {&layout.meta, 1});
  const OpKernel* kernel = op.kernel(device);
  const bool tells = kernel != nullptr && kernel->output_storage != nullptr;
  layout.bytes = tells ? kernel->output_storage(call, 0, layout.meta) : layout.meta.contiguous_bytes();
  return layout;
}

void check_wanted_format(const OpCall& call, const Format& format) {
  const auto& wanted = std::get<std::string>(call.attributes[0]);
  if (wanted.empty() || wanted == format.name()) return;
  throw Error(ErrorCode::kUnsupported, "pack_linear_weight: there is no format '{}' for {}, only '{}'", wanted,
              call.inputs[0].meta().to_string(), format.name());
}

bool fills_packed_blocks(const Registry& registry, std::string_view device, const TensorMeta& plain, int64_t rows) {
  const auto bytes_of = [&](int64_t count) {
    return packed_layout(registry, device, TensorMeta(plain.dtype, Shape{count, plain.shape[1]})).bytes;
  };
  return bytes_of(rows + 1) > bytes_of(rows);
}

void pack_weight_into(const Registry& registry, const device::Device& device, device::Stream& stream,
                      const Tensor& plain, const Tensor& packed) {
  const OpDef& op = registry.get(kOperator);
  const OpKernel* kernel = op.kernel(device.name());
  if (kernel == nullptr) {
    throw Error(ErrorCode::kUnsupported, "operator '{}' has no kernel on device '{}'", kOperator, device.name());
  }
  // It would need what a dispatcher prepares.
  REPRISE_CHECK(kernel->plan == nullptr && kernel->max_workspace == nullptr);
  const Attribute attributes[] = {std::string()};
  Tensor output = packed;
  const OpCall call{.op = op,
                    .inputs = {&plain, 1},
                    .lists = {},
                    .attributes = attributes,
                    .outputs = {&output, 1},
                    .stream = &stream};
  kernel->run(call);
}

}  // namespace reprise::ops
