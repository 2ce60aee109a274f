// What a caller gave to a function of an operator, as the trace shows it.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "emulator/operators/meta/objects.h"

namespace reprise::emulator {

/// An argument: a number, a text, an address, or an object of the interface, which is looked into only while it lives.
class GivenArgument {
 public:
  template <typename T>
  GivenArgument(const T& value) {  // NOLINT(google-explicit-constructor): braces around arguments make a list of these
    if constexpr (std::is_same_v<T, bool>) {
      type_ = Type::kBool;
      number_ = value ? 1 : 0;
    } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
      type_ = std::is_signed_v<T> || std::is_enum_v<T> ? Type::kSigned : Type::kUnsigned;
      number_ = static_cast<uint64_t>(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      type_ = Type::kReal;
      real_ = static_cast<double>(value);
    } else if constexpr (std::is_convertible_v<T, const char*>) {
      type_ = Type::kText;
      text_ = value;
    } else {
      static_assert(std::is_pointer_v<T>);
      if constexpr (MetaObject<std::remove_cv_t<std::remove_pointer_t<T>>>) {
        type_ = Type::kObject;
        kind_ = kind_of(value);
      } else {
        type_ = Type::kAddress;
      }
      address_ = value;
    }
  }
  /// Appends it as JSON.
  void append_to(std::string& json) const;

 private:
  enum class Type { kSigned, kUnsigned, kBool, kReal, kText, kAddress, kObject };

  void append_object_to(std::string& json) const;

  Type type_ = Type::kSigned;
  ObjectKind kind_ = ObjectKind::kTensor;
  union {
    uint64_t number_ = 0;
    double real_;
    const char* text_;
    const void* address_;
  };
};

/// The arguments of a call; `names` is "a, b, c", a static text. Made by EMULATOR_GIVEN, for the same expression.
struct Given {
  std::string_view names;
  std::initializer_list<GivenArgument> arguments;
};

/// A call of an operator's function: counted for injected faults when it is made, and traced when it ends. Exactly one
/// end() belongs to it.
class OperatorCall {
 public:
  OperatorCall(const char* name, const Given& given);

  /// The status of a fault that was injected into this call, or ACLNN_SUCCESS.
  aclnnStatus fault() const { return fault_; }
  /// What the call wrote to its caller, for the trace.
  void answer(std::string_view name, const GivenArgument& value);
  /// Traces the call and leaves the text of a failure for aclGetRecentErrMsg; gives the status.
  aclnnStatus end(aclnnStatus status, const std::string& text);

 private:
  void add(std::string_view name, const GivenArgument& value);

  const char* name_;
  aclnnStatus fault_;
  std::string arguments_;  ///< the object of JSON without its last brace; empty without a trace
};

}  // namespace reprise::emulator

/// The arguments of a function, by name. Macros among them are expanded first.
#define EMULATOR_GIVEN(...) EMULATOR_GIVEN_EXPANDED(__VA_ARGS__)
#define EMULATOR_GIVEN_EXPANDED(...) \
  ::reprise::emulator::Given {       \
    #__VA_ARGS__, { __VA_ARGS__ }    \
  }
