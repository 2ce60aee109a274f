#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "device/ascend/acl_library.h"
#include "device/ascend/interface/acl_meta.h"
#include "kernels/ascend/tensor_view.h"

namespace reprise::kernels::ascend {

/// An optional argument that is not given.
inline constexpr std::nullptr_t kAbsent = nullptr;

/// A scalar argument.
struct ScalarArgument {
  double real = 0;
  int64_t integer = 0;
  bool is_real = false;
};
inline ScalarArgument scalar(double value) { return {value, 0, true}; }
inline ScalarArgument scalar(int64_t value) { return {0, value, false}; }

/// An argument that is a list of tensors.
struct TensorList {
  std::span<const TensorView> views;
};
inline TensorList list_of(const TensorView& only) { return {{&only, 1}}; }

/// The descriptors of one call's arguments, which live as long as its executor: what is given to the first phase, with
/// what captures and dumps want to know of them.
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
    mix_number(value);
    return value;
  }

  /// Of everything but addresses.
  uint64_t digest() const { return digest_; }
  std::span<const void* const> addresses() const { return addresses_; }
  void add_address(const void* address) { addresses_.push_back(address); }

 private:
  aclTensor* make_tensor(const TensorView& view);
  template <typename Number>
  void mix_number(Number value) {
    if constexpr (std::is_floating_point_v<Number>) {
      const double wide = value;
      mix_bytes(&wide, sizeof(wide));
    } else {
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): a number keeps its sign
      const auto wide = static_cast<int64_t>(value);
      mix_bytes(&wide, sizeof(wide));
    }
  }
  void mix_bytes(const void* data, size_t bytes);

  const device::ascend::AclLibrary& library_;
  std::vector<aclTensor*> tensors_;
  std::vector<aclTensorList*> lists_;
  std::vector<aclIntArray*> arrays_;
  std::vector<aclScalar*> scalars_;
  std::vector<const void*> addresses_;
  uint64_t digest_ = 0;
};

}  // namespace reprise::kernels::ascend
