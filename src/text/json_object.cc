#include "text/json_object.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace reprise::text {

using nlohmann::json;

std::string element_path(std::string_view path, size_t index) { return fmt::format("{}[{}]", path, index); }

void throw_wrong_type(std::string_view path, std::string_view expected, const json& value) {
  throw Error(ErrorCode::kCorruptData, "{}: expected {}, found {}", path, expected, value.type_name());
}

JsonObject::JsonObject(const json& value, std::string path) : value_(value), path_(std::move(path)) {
  if (!value_.is_object()) throw_wrong_type(path_, "an object", value_);
}

std::string JsonObject::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const json* JsonObject::find(std::string_view key) {
  const auto found = value_.find(key);
  if (found == value_.end()) return nullptr;
  read_.emplace(key);
  return &*found;
}

const json& JsonObject::get(std::string_view key) {
  const json* value = find(key);
  if (!value) throw Error(ErrorCode::kCorruptData, "{}: missing", path_of(key));
  return *value;
}

bool JsonObject::get_bool(std::string_view key) {
  const json& value = get(key);
  if (!value.is_boolean()) throw_wrong_type(path_of(key), "true or false", value);
  return value.get<bool>();
}

bool JsonObject::get_bool(std::string_view key, bool otherwise) { return find(key) ? get_bool(key) : otherwise; }

const std::string& JsonObject::get_string(std::string_view key) {
  const json& value = get(key);
  if (!value.is_string()) throw_wrong_type(path_of(key), "a string", value);
  return value.get_ref<const std::string&>();
}

int64_t JsonObject::get_integer(std::string_view key) {
  const json& value = get(key);
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  if (!fits) throw_wrong_type(path_of(key), "an integer", value);
  return value.get<int64_t>();
}

const json& JsonObject::get_array(std::string_view key) {
  const json& value = get(key);
  if (!value.is_array()) throw_wrong_type(path_of(key), "an array", value);
  return value;
}

void JsonObject::finish() const {
  for (const auto& [key, value] : value_.items()) {
    if (!read_.contains(key)) throw Error(ErrorCode::kUnsupported, "{}: unknown key", path_of(key));
  }
}

}  // namespace reprise::text
