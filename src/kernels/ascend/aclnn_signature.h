#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

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

/// What captures, dumps and the cache of executors want to know of a call's arguments.
class AclnnSignature {
 public:
  void add(const TensorView& view);
  void add(const TensorList& list);
  void add(std::span<const int64_t> values);
  void add(const ScalarArgument& value);
  void add(const char* text);
  void add(std::nullptr_t) { is_plain_ = false; }
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number> || std::is_enum_v<Number>>>
  void add(Number value) {
    mix_number(value);
  }
  void add_address(void* address) { addresses_.push_back(address); }

  /// Of everything but addresses.
  uint64_t digest() const { return digest_; }
  /// Of the tensors, in order.
  std::span<void* const> addresses() const { return addresses_; }
  /// Whether every tensor is given, and none of them in a list: then the place of each in the signature is known.
  bool is_plain() const { return is_plain_; }

 private:
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

  std::vector<void*> addresses_;
  uint64_t digest_ = 0;
  bool is_plain_ = true;
};

}  // namespace reprise::kernels::ascend
