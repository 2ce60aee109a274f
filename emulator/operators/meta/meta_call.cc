#include "emulator/operators/meta/meta_call.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace reprise::emulator {
namespace {

constexpr uint64_t kMostShown = 64;

std::string said(std::string_view name, std::string_view what) {
  std::string text;
  text.append(name).append(what);
  return text;
}

}  // namespace

MetaArgument::MetaArgument(const char* name, const void* address)
    : name_(name), type_(Type::kAddress), value_(reinterpret_cast<uint64_t>(address)) {}

MetaArgument::MetaArgument(const char* name, int64_t number)
    : name_(name), type_(Type::kNumber), value_(static_cast<uint64_t>(number)) {}

MetaArgument::MetaArgument(const char* name, const int64_t* numbers, uint64_t count)
    : name_(name), type_(Type::kNumbers), value_(numbers == nullptr ? 0 : count), numbers_(numbers) {}

void MetaArgument::append_to(std::string& json) const {
  if (json.size() > 1) json.append(", ");
  json.append("\"").append(name_).append("\": ");
  if (type_ == Type::kNumber) {
    json.append(std::to_string(static_cast<int64_t>(value_)));
  } else if (type_ == Type::kNumbers) {
    json.push_back('[');
    for (uint64_t i = 0; i < std::min(value_, kMostShown); ++i) {
      if (i > 0) json.append(", ");
      json.append(std::to_string(numbers_[i]));
    }
    json.push_back(']');
  } else if (value_ == 0) {
    json.append("null");
  } else {
    char digits[16];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), value_, 16).ptr;
    json.append("\"0x").append(digits, end).append("\"");
  }
}

MetaCall::MetaCall(const char* name, void* return_address, std::initializer_list<MetaArgument> arguments)
    : call_(emulatorCallBegin(name, return_address)) {
  if (!emulatorTraces()) return;
  arguments_.push_back('{');
  for (const MetaArgument& argument : arguments) argument.append_to(arguments_);
}

MetaCall::~MetaCall() {
  emulatorEndUses();
  if (!arguments_.empty()) arguments_.push_back('}');
  emulatorCallEnd(call_, status_, text_.c_str(), arguments_.empty() ? nullptr : arguments_.c_str());
}

void MetaCall::add(const MetaArgument& argument) {
  if (!arguments_.empty()) argument.append_to(arguments_);
}

aclnnStatus MetaCall::result(aclnnStatus status, std::string text) {
  status_ = status;
  text_ = std::move(text);
  return status;
}

aclnnStatus MetaCall::null_argument(const char* name) {
  return result(ACLNN_ERR_PARAM_NULLPTR, said(name, " is a null pointer"));
}

std::nullptr_t MetaCall::refuse(std::string text) {
  result(ACLNN_ERR_PARAM_INVALID, std::move(text));
  return nullptr;
}

aclnnStatus MetaCall::use_object(ObjectKind kind, const void* object, const char* name) {
  if (emulatorUseObject(kind, object)) return ACLNN_SUCCESS;
  return result(ACLNN_ERR_PARAM_INVALID, said(name, " is none, or was destroyed"));
}

aclnnStatus MetaCall::destroy_object_of(ObjectKind kind, const void* object, const char* name) {
  if (destroy_object(kind, object)) return result(ACLNN_SUCCESS);
  return result(ACLNN_ERR_PARAM_INVALID, said(name, " is none, or was destroyed before"));
}

}  // namespace reprise::emulator
