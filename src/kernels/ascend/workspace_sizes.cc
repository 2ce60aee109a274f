#include "kernels/ascend/workspace_sizes.h"

#include <type_traits>
#include <variant>

#include "base/hash.h"

namespace reprise::kernels::ascend {
namespace {

/// More than the calls of some models' steps; shapes that never come again must not stay.
constexpr size_t kMostSizes = 8192;

class Hasher {
 public:
  template <typename Number>
  void add(Number number) {
    static_assert(std::is_trivially_copyable_v<Number>);
    hash_ = hash_bytes(std::as_bytes(std::span(&number, 1)), hash_);
  }
  void add(const Shape& shape) {
    add(shape.rank());
    for (size_t axis = 0; axis < shape.rank(); ++axis) add(shape.size(axis));
  }
  void add(const std::string& text) { hash_ = hash_text(text, hash_); }
  void add(const TensorMeta& meta) {
    add(meta.dtype);
    hash_ = hash_text(meta.format.name(), hash_);
    add(meta.shape);
    for (size_t axis = 0; axis < meta.shape.rank(); ++axis) add(meta.strides[axis]);
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = kHashStart;
};

}  // namespace

uint64_t WorkspaceSizes::key_of(const ops::OpCall& call) {
  Hasher hasher;
  hasher.add(call.op.name());
  for (const Tensor& input : call.inputs) {
    hasher.add(input.defined());
    if (input.defined()) hasher.add(input.meta());
  }
  for (const ops::Attribute& attribute : call.attributes) {
    hasher.add(attribute.index());
    std::visit([&](const auto& value) { hasher.add(value); }, attribute);
  }
  hasher.add(call.outputs.size());
  for (const Tensor& output : call.outputs) hasher.add(output.meta());
  return hasher.hash();
}

std::optional<size_t> WorkspaceSizes::find(uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto place = sizes_.find(key);
  return place == sizes_.end() ? std::nullopt : std::optional(place->second);
}

void WorkspaceSizes::add(uint64_t key, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (sizes_.size() >= kMostSizes) sizes_.clear();
  sizes_[key] = bytes;
}

}  // namespace reprise::kernels::ascend
