#include "kernels/ascend/aclnn_signature.h"

#include <cstring>

#include "base/hash.h"

namespace reprise::kernels::ascend {

void AclnnSignature::mix_bytes(const void* data, size_t bytes) {
  const uint64_t hash = hash_bytes(std::span(static_cast<const std::byte*>(data), bytes));
  digest_ = (digest_ ^ hash) * 0x9E3779B97F4A7C15u + hash;
}

void AclnnSignature::add(const TensorView& view) {
  if (!view.defined()) {
    is_plain_ = false;
    mix_number(-1);
    return;
  }
  addresses_.push_back(view.data);
  const int64_t kind[] = {static_cast<int64_t>(view.dtype), view.blocked ? 1 : 0, static_cast<int64_t>(view.rank)};
  mix_bytes(kind, sizeof(kind));
  mix_bytes(view.sizes.data(), view.rank * sizeof(int64_t));
  mix_bytes(view.strides.data(), view.rank * sizeof(int64_t));
}

void AclnnSignature::add(const TensorList& list) {
  for (const TensorView& view : list.views) add(view);
  is_plain_ = false;
}

void AclnnSignature::add(std::span<const int64_t> values) {
  is_plain_ = false;
  mix_bytes(values.data(), values.size_bytes());
}

void AclnnSignature::add(const ScalarArgument& value) {
  if (value.is_real) {
    mix_number(value.real);
  } else {
    mix_number(value.integer);
  }
}

void AclnnSignature::add(const char* text) { mix_bytes(text, std::strlen(text)); }

}  // namespace reprise::kernels::ascend
