#include "ops/launch_labels.h"

#include <fmt/core.h>

namespace reprise::ops {
namespace {

std::string shapes_text(std::span<const Tensor> tensors) {
  std::string text = "[";
  for (const Tensor& tensor : tensors) {
    text += text.size() == 1 ? "[" : ", [";
    for (size_t axis = 0; tensor.defined() && axis < tensor.rank(); ++axis) {
      text += fmt::format("{}{}", axis == 0 ? "" : ", ", tensor.size(axis));
    }
    text += "]";
  }
  return text + "]";
}

}  // namespace

uint16_t LaunchLabels::of(const OpDef& op, std::span<const Tensor> inputs) {
  LaunchLabel label{op.name(), shapes_text(inputs)};
  const std::lock_guard lock(mutex_);
  const auto known = numbers_.find(label);
  if (known != numbers_.end()) return known->second;
  if (numbers_.size() == std::numeric_limits<uint16_t>::max()) return 0;
  const auto number = static_cast<uint16_t>(numbers_.size() + 1);
  numbers_.emplace(std::move(label), number);
  return number;
}

std::vector<LaunchLabel> LaunchLabels::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<LaunchLabel> labels(numbers_.size());
  for (const auto& [label, number] : numbers_) labels[number - 1] = label;
  return labels;
}

}  // namespace reprise::ops
