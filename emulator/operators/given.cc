#include "emulator/operators/given.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "emulator/operators/meta/tensor.h"

namespace reprise::emulator {
namespace {

/// Of arrays and lists; what is cut is counted.
constexpr size_t kMostShown = 64;

void append_text(std::string& json, std::string_view text) {
  json.push_back('"');
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') json.push_back('\\');
    json.push_back(static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter);
  }
  json.push_back('"');
}

void append_address(std::string& json, const void* address) {
  if (address == nullptr) {
    json.append("null");
    return;
  }
  char digits[16];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), reinterpret_cast<uint64_t>(address), 16).ptr;
  json.append("\"0x").append(digits, end).append("\"");
}

void append_real(std::string& json, double value) {
  if (!std::isfinite(value)) {
    json.append("null");
    return;
  }
  char digits[32];
  json.append(digits, std::to_chars(std::begin(digits), std::end(digits), value).ptr);
}

/// `append` writes an element.
template <typename Values, typename Append>
void append_array(std::string& json, const Values& values, Append append) {
  json.push_back('[');
  for (size_t i = 0; i < std::min(values.size(), kMostShown); ++i) {
    if (i > 0) json.append(", ");
    append(values[i]);
  }
  if (values.size() > kMostShown) {
    json.append(", ");
    append_text(json, std::to_string(values.size() - kMostShown).append(" more"));
  }
  json.push_back(']');
}

void append_integers(std::string& json, const std::vector<int64_t>& values) {
  append_array(json, values, [&](int64_t value) { json.append(std::to_string(value)); });
}

std::string name_of(aclDataType dtype) {
  switch (dtype) {
    case ACL_FLOAT:
      return "FLOAT";
    case ACL_FLOAT16:
      return "FLOAT16";
    case ACL_BF16:
      return "BF16";
    case ACL_DOUBLE:
      return "DOUBLE";
    case ACL_INT8:
      return "INT8";
    case ACL_UINT8:
      return "UINT8";
    case ACL_INT16:
      return "INT16";
    case ACL_UINT16:
      return "UINT16";
    case ACL_INT32:
      return "INT32";
    case ACL_UINT32:
      return "UINT32";
    case ACL_INT64:
      return "INT64";
    case ACL_UINT64:
      return "UINT64";
    case ACL_BOOL:
      return "BOOL";
    default:
      return std::to_string(static_cast<int>(dtype));
  }
}

std::string name_of(aclFormat format) {
  if (format == ACL_FORMAT_ND) return "ND";
  if (format == ACL_FORMAT_FRACTAL_NZ) return "FRACTAL_NZ";
  return std::to_string(static_cast<int>(format));
}

bool has_plain_strides(const aclTensor& tensor) {
  int64_t expected = 1;
  for (size_t axis = tensor.dims.size(); axis-- > 0;) {
    if (tensor.strides[axis] != expected) return false;
    if (__builtin_mul_overflow(expected, tensor.dims[axis], &expected)) return false;
  }
  return true;
}

// Members of an object whose address has been written.

void append_members(std::string& json, const aclTensor& tensor) {
  json.append(", \"dtype\": ");
  append_text(json, name_of(tensor.dtype));
  json.append(", \"shape\": ");
  append_integers(json, tensor.dims);
  if (!has_plain_strides(tensor)) {
    json.append(", \"strides\": ");
    append_integers(json, tensor.strides);
  }
  if (tensor.offset != 0) json.append(", \"offset\": ").append(std::to_string(tensor.offset));
  json.append(", \"format\": ");
  append_text(json, name_of(tensor.format));
  json.append(", \"address\": ");
  append_address(json, tensor.data);
}

void append_members(std::string& json, const aclScalar& scalar) {
  json.append(", \"dtype\": ");
  append_text(json, name_of(scalar.dtype));
  json.append(", \"value\": ");
  if (scalar.is_real()) {
    append_real(json, scalar.real);
  } else {
    json.append(std::to_string(scalar.integer));
  }
}

void append_members(std::string& json, const aclIntArray& array) {
  json.append(", \"values\": ");
  append_integers(json, array.values);
}

void append_members(std::string& json, const aclFloatArray& array) {
  json.append(", \"values\": ");
  append_array(json, array.values, [&](float value) { append_real(json, value); });
}

void append_members(std::string& json, const aclBoolArray& array) {
  json.append(", \"values\": ");
  append_array(json, array.values, [&](uint8_t value) { json.append(value != 0 ? "true" : "false"); });
}

void append_members(std::string& json, const aclTensorList& list) {
  json.append(", \"tensors\": ");
  append_array(json, list.tensors, [&](const aclTensor* tensor) { GivenArgument(tensor).append_to(json); });
}

void append_members(std::string& json, const aclScalarList& list) {
  json.append(", \"scalars\": ");
  append_array(json, list.scalars, [&](const aclScalar* scalar) { GivenArgument(scalar).append_to(json); });
}

}  // namespace

void GivenArgument::append_object_to(std::string& json) const {
  // What lives no more, or never did, is an address. Executors show nothing but theirs.
  if (address_ == nullptr || kind_ == ObjectKind::kExecutor || !emulatorKnowsObject(kind_, address_)) {
    append_address(json, address_);
    return;
  }
  json.append("{\"object\": ");
  append_address(json, address_);
  switch (kind_) {
    case ObjectKind::kTensor:
      append_members(json, *static_cast<const aclTensor*>(address_));
      break;
    case ObjectKind::kScalar:
      append_members(json, *static_cast<const aclScalar*>(address_));
      break;
    case ObjectKind::kIntArray:
      append_members(json, *static_cast<const aclIntArray*>(address_));
      break;
    case ObjectKind::kFloatArray:
      append_members(json, *static_cast<const aclFloatArray*>(address_));
      break;
    case ObjectKind::kBoolArray:
      append_members(json, *static_cast<const aclBoolArray*>(address_));
      break;
    case ObjectKind::kTensorList:
      append_members(json, *static_cast<const aclTensorList*>(address_));
      break;
    case ObjectKind::kScalarList:
      append_members(json, *static_cast<const aclScalarList*>(address_));
      break;
    default:
      break;
  }
  json.push_back('}');
}

void GivenArgument::append_to(std::string& json) const {
  switch (type_) {
    case Type::kSigned:
      json.append(std::to_string(static_cast<int64_t>(number_)));
      break;
    case Type::kUnsigned:
      json.append(std::to_string(number_));
      break;
    case Type::kBool:
      json.append(number_ != 0 ? "true" : "false");
      break;
    case Type::kReal:
      append_real(json, real_);
      break;
    case Type::kText:
      if (text_ == nullptr) {
        json.append("null");
      } else {
        append_text(json, text_);
      }
      break;
    case Type::kAddress:
      append_address(json, address_);
      break;
    case Type::kObject:
      append_object_to(json);
      break;
  }
}

OperatorCall::OperatorCall(const char* name, const Given& given) : name_(name), fault_(emulatorOperatorFault(name)) {
  if (!emulatorTraces()) return;
  arguments_.push_back('{');
  std::string_view names = given.names;
  for (const GivenArgument& argument : given.arguments) {
    const std::string_view one = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), one.size() + 1));
    while (names.starts_with(' ')) names.remove_prefix(1);
    add(one, argument);
  }
}

void OperatorCall::add(std::string_view name, const GivenArgument& value) {
  if (arguments_.size() > 1) arguments_.append(", ");
  append_text(arguments_, name);
  arguments_.append(": ");
  value.append_to(arguments_);
}

void OperatorCall::answer(std::string_view name, const GivenArgument& value) {
  if (!arguments_.empty()) add(name, value);
}

aclnnStatus OperatorCall::end(aclnnStatus status, const std::string& text) {
  if (!arguments_.empty()) emulatorOperatorArguments(arguments_.append("}").c_str());
  emulatorEndUses();
  emulatorOperatorResult(name_, status, text.empty() ? nullptr : text.c_str());
  return status;
}

}  // namespace reprise::emulator
