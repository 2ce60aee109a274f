// Why the first phase of an operator refuses its arguments.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "device/ascend/interface/acl_types.h"
#include "emulator/operators/meta/objects.h"

namespace reprise::emulator {

class OperatorError : public std::runtime_error {
 public:
  OperatorError(aclnnStatus status, const std::string& text) : std::runtime_error(text), status_(status) {}
  aclnnStatus status() const { return status_; }

 private:
  aclnnStatus status_;
};

/// What a text can tell of: a number or another text.
class TextValue {
 public:
  template <std::integral T>
  TextValue(T value) : text_(std::to_string(value)) {}
  TextValue(double value) : text_(std::to_string(value)) {}
  TextValue(std::string_view value) : text_(value) {}
  TextValue(const std::string& value) : text_(value) {}
  TextValue(const char* value) : text_(value) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// `format` with each {} replaced by a value. Its own, since the header-only fmt would triple these files' compile
/// time.
std::string formatted(std::string_view format, std::initializer_list<TextValue> values);

/// Throws with the formatted text unless `holds`.
template <typename... Values>
void require(bool holds, std::string_view format, const Values&... values) {
  if (!holds) throw OperatorError(ACLNN_ERR_PARAM_INVALID, formatted(format, {TextValue(values)...}));
}

inline void require_pointer(const void* pointer, const char* name) {
  if (pointer == nullptr) throw OperatorError(ACLNN_ERR_PARAM_NULLPTR, formatted("{} is a null pointer", {name}));
}

/// For an object that may be left out: nothing is read of one that was destroyed.
template <MetaObject T>
void require_live(const T* object, const char* name) {
  if (object == nullptr || emulatorUseObject(kind_of(object), object)) return;
  throw OperatorError(ACLNN_ERR_PARAM_INVALID, formatted("{} is no such object, or was destroyed", {name}));
}

template <MetaObject T>
void require_pointer(const T* object, const char* name) {
  require_pointer(static_cast<const void*>(object), name);
  require_live(object, name);
}

}  // namespace reprise::emulator
