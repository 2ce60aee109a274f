#include "ops/linear_merge.h"

#include <algorithm>

#include "base/error.h"

namespace reprise::ops {
namespace {

/// Bytes of a weight like `weight` with another number of rows.
size_t bytes_of_rows(const Registry& registry, std::string_view device, const Tensor& weight, int64_t rows) {
  TensorMeta meta(weight.dtype(), Shape{rows, weight.size(1)});
  if (weight.format().is_plain()) return meta.contiguous_bytes();
  const OpDef& pack = registry.get("pack_linear_weight");
  const OpKernel* kernel = pack.kernel(device);
  if (kernel == nullptr || kernel->output_storage == nullptr) {
    throw Error(ErrorCode::kUnsupported, "device '{}' does not tell the size of weights in the format '{}'", device,
                weight.format().name());
  }
  const Tensor plain(meta, nullptr);
  const Attribute attributes[] = {std::string(weight.format().name())};
  const OpCall call{.op = pack, .inputs = {&plain, 1}, .lists = {}, .attributes = attributes, .outputs = {}};
  return kernel->output_storage(call, 0, meta);
}

bool fills_its_blocks(const Registry& registry, std::string_view device, const Tensor& weight) {
  const int64_t rows = weight.size(0);
  return bytes_of_rows(registry, device, weight, rows + 1) > bytes_of_rows(registry, device, weight, rows);
}

/// One of the tensors that are laid one after the other, and its bytes.
struct Part {
  Tensor tensor;
  size_t bytes = 0;
};

std::vector<Part> weight_parts(const Registry& registry, std::string_view device,
                               std::span<const LinearWeights> weights) {
  std::vector<Part> parts;
  for (const LinearWeights& one : weights) {
    parts.push_back({one.weight, bytes_of_rows(registry, device, one.weight, one.weight.size(0))});
  }
  return parts;
}

/// What has one value for each row of the weight.
constexpr Tensor LinearWeights::* kVectors[] = {&LinearWeights::bias, &LinearWeights::scale,
                                                &LinearWeights::quant_bias};

std::vector<Part> vector_parts(std::span<const LinearWeights> weights, Tensor LinearWeights::* vector) {
  std::vector<Part> parts;
  for (const LinearWeights& one : weights) {
    parts.push_back({one.*vector, (one.*vector).meta().contiguous_bytes()});
  }
  return parts;
}

/// The same tensor in the same memory, or both absent.
bool is_same(const Tensor& a, const Tensor& b) {
  return a.defined() == b.defined() && a.storage() == b.storage() && a.offset_bytes() == b.offset_bytes();
}

/// The metadata of all parts together: axis 0 is the sum.
TensorMeta merged_meta(const std::vector<Part>& parts) {
  Shape shape = parts[0].tensor.shape();
  for (size_t i = 1; i < parts.size(); ++i) shape[0] = shape[0] + parts[i].tensor.shape()[0];
  return TensorMeta(parts[0].tensor.dtype(), shape, parts[0].tensor.format());
}

/// Whether each part begins where the one before ends, in one storage.
bool lie_together(const std::vector<Part>& parts) {
  const Tensor& first = parts[0].tensor;
  size_t offset = first.offset_bytes();
  for (const Part& part : parts) {
    if (part.tensor.storage() == nullptr || part.tensor.storage() != first.storage()) return false;
    if (part.tensor.offset_bytes() != offset) return false;
    offset += part.bytes;
  }
  return true;
}

/// Copies parts into a storage of their own, and puts views of it into them; what lies so already stays.
Tensor lay_out(device::Device& device, std::vector<Part>& parts) {
  if (lie_together(parts)) {
    return Tensor(merged_meta(parts), parts[0].tensor.storage(), parts[0].tensor.offset_bytes());
  }
  size_t bytes = 0;
  bool without_memory = false;
  for (const Part& part : parts) {
    bytes += part.bytes;
    without_memory = without_memory || (part.tensor.data() == nullptr && part.bytes > 0);
  }
  const auto storage = without_memory ? std::make_shared<Storage>(nullptr, bytes) : device.allocate(bytes);
  const Tensor merged(merged_meta(parts), storage);
  size_t offset = 0;
  for (Part& part : parts) {
    const Tensor view(part.tensor.meta(), storage, offset);
    if (!without_memory && part.bytes > 0) {
      device.copy(view.data(), part.tensor.data(), part.bytes, device::CopyKind::kDeviceToDevice);
    }
    part.tensor = view;
    offset += part.bytes;
  }
  return merged;
}

}  // namespace

std::string merge_hazard(const Registry& registry, std::string_view device, std::span<const LinearWeights> weights) {
  if (weights.size() < 2) return "there are fewer than two weights";
  const LinearWeights& first = weights[0];
  for (size_t i = 0; i < weights.size(); ++i) {
    const LinearWeights& one = weights[i];
    if (one.weight.dtype() != first.weight.dtype()) {
      return fmt::format("weight {} is {}, the first is {}", i, name_of(one.weight.dtype()),
                         name_of(first.weight.dtype()));
    }
    if (one.weight.format() != first.weight.format()) {
      return fmt::format("weight {} has the format '{}', the first has '{}'", i, one.weight.format().name(),
                         first.weight.format().name());
    }
    if (one.weight.size(1) != first.weight.size(1)) {
      return fmt::format("weight {} has {} columns, the first has {}", i, one.weight.size(1), first.weight.size(1));
    }
    if (one.weight.format().is_plain() && !one.weight.is_contiguous()) {
      return fmt::format("weight {} is {}, not contiguous", i, one.weight.meta().to_string());
    }
    if (one.bias.defined() != first.bias.defined()) return "some have a bias and some have none";
    if (one.scale.defined() != first.scale.defined() || one.quant_bias.defined() != first.quant_bias.defined() ||
        !is_same(one.input_scale, first.input_scale) || !is_same(one.input_offset, first.input_offset)) {
      return fmt::format("weight {} is not quantised as the first is", i);
    }
    if (one.parallel != first.parallel) return fmt::format("weight {} is not cut as the first is", i);
    if (i + 1 < weights.size() && !fills_its_blocks(registry, device, one.weight)) {
      return fmt::format("the {} rows of weight {} do not fill the blocks of the format '{}'", one.weight.size(0), i,
                         one.weight.format().name());
    }
  }
  return "";
}

MergedLinearWeights merge_linear_weights(const Registry& registry, device::Device& device,
                                         std::span<const LinearWeights> weights) {
  const std::string hazard = merge_hazard(registry, device.name(), weights);
  if (!hazard.empty()) throw Error(ErrorCode::kInvalidArgument, "linear weights cannot be merged: {}", hazard);
  MergedLinearWeights result;
  result.merged = weights[0];
  result.parts.assign(weights.begin(), weights.end());
  std::vector<Part> parts = weight_parts(registry, device.name(), weights);
  result.merged.weight = lay_out(device, parts);
  for (size_t i = 0; i < parts.size(); ++i) result.parts[i].weight = parts[i].tensor;
  for (Tensor LinearWeights::* vector : kVectors) {
    if (!(weights[0].*vector).defined()) continue;
    parts = vector_parts(weights, vector);
    result.merged.*vector = lay_out(device, parts);
    for (size_t i = 0; i < parts.size(); ++i) result.parts[i].*vector = parts[i].tensor;
  }
  return result;
}

std::optional<LinearWeights> join_linear_weights(const Registry& registry, std::string_view device,
                                                 std::span<const LinearWeights> weights, std::string* reason) {
  std::string hazard = merge_hazard(registry, device, weights);
  LinearWeights merged;
  const auto join = [&](const std::vector<Part>& parts, Tensor& to) {
    if (lie_together(parts)) {
      to = Tensor(merged_meta(parts), parts[0].tensor.storage(), parts[0].tensor.offset_bytes());
    } else if (hazard.empty()) {
      hazard = "they do not lie one after the other in one storage";
    }
  };
  if (hazard.empty()) {
    merged = weights[0];
    join(weight_parts(registry, device, weights), merged.weight);
    for (Tensor LinearWeights::* vector : kVectors) {
      if ((weights[0].*vector).defined()) join(vector_parts(weights, vector), merged.*vector);
    }
  }
  if (reason != nullptr) *reason = hazard;
  if (!hazard.empty()) return std::nullopt;
  return merged;
}

}  // namespace reprise::ops
