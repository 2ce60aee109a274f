#include "ops/in_place.h"

#include "base/error.h"
#include "ops/checks.h"

namespace reprise::ops {

const OpDef* find_in_place_variant(const Registry& registry, const OpDef& op) {
  const OpDef* variant = registry.find(op.name() + "_");
  if (variant == nullptr) return nullptr;
  const Schema& from = op.schema();
  const Schema& to = variant->schema();
  if (from.outputs.size() != 1 || !to.outputs.empty() || from.tensors.empty() ||
      from.tensors.size() != to.tensors.size() || !from.lists.empty() || !to.lists.empty() ||
      from.attributes.size() != to.attributes.size()) {
    return nullptr;
  }
  for (size_t i = 0; i < from.tensors.size(); ++i) {
    const TensorSpec& a = from.tensors[i];
    const TensorSpec& b = to.tensors[i];
    if (a.mutated || b.mutated != (i == 0) || a.optional != b.optional || a.name != b.name) return nullptr;
  }
  for (size_t i = 0; i < from.attributes.size(); ++i) {
    if (from.attributes[i].name != to.attributes[i].name || from.attributes[i].kind != to.attributes[i].kind) {
      return nullptr;
    }
  }
  return variant;
}

std::vector<std::string> with_in_place_variants(const Registry& registry, std::vector<std::string> names) {
  for (size_t i = 0, given = names.size(); i < given; ++i) {
    const OpDef* op = registry.find(names[i]);
    const OpDef* variant = op == nullptr ? nullptr : find_in_place_variant(registry, *op);
    if (variant != nullptr) names.push_back(variant->name());
  }
  return names;
}

void require_result_fits(const OpCall& call, const TensorMeta& result) {
  const Tensor& target = call.inputs[0];
  if (target.dtype() == result.dtype && target.shape() == result.shape && target.format() == result.format) return;
  fail_argument(call, 0,
                fmt::format("is {}, expected {} to be written over", target.meta().to_string(), result.to_string()));
}

}  // namespace reprise::ops
