// The frame around the functions of the interface that this library has.
#pragma once

#include <initializer_list>
#include <string>

#include "emulator/operators/meta/objects.h"

namespace reprise::emulator {

/// An argument as the trace shows it.
class MetaArgument {
 public:
  MetaArgument(const char* name, const void* address);
  MetaArgument(const char* name, int64_t number);
  /// Sizes, of which there may be none and too many.
  MetaArgument(const char* name, const int64_t* numbers, uint64_t count);
  void append_to(std::string& json) const;

 private:
  enum class Type { kAddress, kNumber, kNumbers };

  const char* name_;
  Type type_;
  uint64_t value_ = 0;
  const int64_t* numbers_ = nullptr;
};

/// Made first in every function: at its end the call is traced, and a failure leaves its text. What the caller gives is
/// looked at only when it is known to be an object.
class MetaCall {
 public:
  MetaCall(const char* name, void* return_address, std::initializer_list<MetaArgument> arguments);
  ~MetaCall();
  MetaCall(const MetaCall&) = delete;
  MetaCall& operator=(const MetaCall&) = delete;

  /// What the function returns.
  aclnnStatus result(aclnnStatus status, std::string text = {});
  aclnnStatus null_argument(const char* name);
  /// Of a function that makes an object: null with a text for aclGetRecentErrMsg, and the object.
  std::nullptr_t refuse(std::string text);
  template <MetaObject T>
  T* made(std::unique_ptr<T> object) {
    T* made = adopt(std::move(object));
    add({"returned", made});
    return made;
  }

  /// 161001 for a null pointer, 161002 for what is no object of this kind that lives.
  template <MetaObject T>
  aclnnStatus use(const T* object, const char* name) {
    return object == nullptr ? null_argument(name) : use_object(kind_of(object), object, name);
  }
  template <MetaObject T>
  aclnnStatus destroy(const T* object, const char* name) {
    return object == nullptr ? null_argument(name) : destroy_object_of(kind_of(object), object, name);
  }

 private:
  aclnnStatus use_object(ObjectKind kind, const void* object, const char* name);
  aclnnStatus destroy_object_of(ObjectKind kind, const void* object, const char* name);
  void add(const MetaArgument& argument);

  void* call_;
  std::string arguments_;
  aclnnStatus status_ = ACLNN_SUCCESS;
  std::string text_;
};

}  // namespace reprise::emulator

/// First line of a function; its arguments follow as {"name", value}.
#define META_CALL(...) ::reprise::emulator::MetaCall call(__func__, __builtin_return_address(0), {__VA_ARGS__})
/// Leaves a function unless the status is that of success.
#define META_TRY(expression) \
  if (const aclnnStatus attempted = (expression); attempted != ACLNN_SUCCESS) return attempted
#define META_REQUIRE(argument) \
  if ((argument) == nullptr) return call.null_argument(#argument)
