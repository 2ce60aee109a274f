#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "device/ascend/acl_library.h"
#include "device/ascend/interface/acl_meta.h"
#include "kernels/ascend/aclnn_signature.h"

namespace reprise::kernels::ascend {

/// The descriptors of one call's arguments, which live as long as its executor: what is given to the first phase.
class AclnnArguments {
 public:
  explicit AclnnArguments(const device::ascend::AclLibrary& library) : library_(library) {}
  ~AclnnArguments();
  AclnnArguments(const AclnnArguments&) = delete;
  AclnnArguments& operator=(const AclnnArguments&) = delete;

  /// From what callers write to what the interface wants. kOutOfMemory when the library makes no descriptor.
  aclTensor* give(const TensorView& view);
  aclTensorList* give(const TensorList& list);
  aclIntArray* give(std::span<const int64_t> values);
  aclScalar* give(const ScalarArgument& value);
  char* give(const char* text);
  std::nullptr_t give(std::nullptr_t) { return nullptr; }
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number> || std::is_enum_v<Number>>>
  Number give(Number value) {
    return value;
  }

  /// Those outside of lists, in the order in which they were given.
  std::span<aclTensor* const> tensors() const { return tensors_; }

 private:
  aclTensor* make_tensor(const TensorView& view);

  const device::ascend::AclLibrary& library_;
  std::vector<aclTensor*> tensors_;
  std::vector<aclTensorList*> lists_;
  std::vector<aclIntArray*> arrays_;
  std::vector<aclScalar*> scalars_;
};

}  // namespace reprise::kernels::ascend
