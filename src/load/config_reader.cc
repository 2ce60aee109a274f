#include "load/config_reader.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "load/json.h"

namespace reprise::load {
namespace {

std::optional<int64_t> integer_in(const nlohmann::json& value, int64_t min, int64_t max) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(max)) return std::nullopt;
    return static_cast<int64_t>(number) < min ? std::nullopt : std::optional(static_cast<int64_t>(number));
  }
  if (!value.is_number_integer()) return std::nullopt;
  const int64_t number = value.get<int64_t>();
  return number < min || number > max ? std::nullopt : std::optional(number);
}

std::string integer_range(int64_t min, int64_t max) { return fmt::format("an integer from {} to {}", min, max); }

}  // namespace

ConfigReader::ConfigReader(const nlohmann::json& object, std::string what, std::string prefix)
    : object_(object), what_(std::move(what)), prefix_(std::move(prefix)) {
  if (object_.is_object()) return;
  if (prefix_.empty()) throw Error(ErrorCode::kCorruptData, "{} holds {}, not an object", what_, describe(object_));
  throw Error(ErrorCode::kCorruptData, "{}: {} is {}, not an object", what_, prefix_.substr(0, prefix_.size() - 1),
              describe(object_));
}

bool ConfigReader::has(std::string_view key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

const nlohmann::json* ConfigReader::get(std::string_view key) {
  read_.emplace(key);
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

int64_t ConfigReader::integer(std::string_view key, int64_t absent, int64_t min, int64_t max) {
  const nlohmann::json* value = get(key);
  if (value == nullptr) return absent;
  const std::optional<int64_t> number = integer_in(*value, min, max);
  if (!number) fail(key, integer_range(min, max));
  return *number;
}

double ConfigReader::number(std::string_view key, double absent, double min, double max) {
  const nlohmann::json* value = get(key);
  if (value == nullptr) return absent;
  if (!value->is_number()) fail(key, "a number");
  const double number = value->get<double>();
  if (!(number >= min && number <= max)) fail(key, fmt::format("a number from {} to {}", min, max));
  return number;
}

bool ConfigReader::boolean(std::string_view key, bool absent) {
  const nlohmann::json* value = get(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) fail(key, "true or false");
  return value->get<bool>();
}

std::string ConfigReader::text(std::string_view key, std::string_view absent) {
  const nlohmann::json* value = get(key);
  if (value == nullptr) return std::string(absent);
  if (!value->is_string()) fail(key, "a string");
  return value->get<std::string>();
}

std::optional<int64_t> ConfigReader::optional_integer(std::string_view key, int64_t min, int64_t max) {
  const nlohmann::json* value = get(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return integer(key, 0, min, max);
}

std::optional<double> ConfigReader::optional_number(std::string_view key, double min, double max) {
  const nlohmann::json* value = get(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return number(key, 0, min, max);
}

std::optional<bool> ConfigReader::optional_boolean(std::string_view key) {
  const nlohmann::json* value = get(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return boolean(key, false);
}

std::optional<std::string> ConfigReader::optional_text(std::string_view key) {
  const nlohmann::json* value = get(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return text(key, "");
}

std::vector<int32_t> ConfigReader::integers(std::string_view key, int64_t min, int64_t max) {
  const nlohmann::json* value = get(key);
  std::vector<int32_t> result;
  if (value == nullptr || value->is_null()) return result;
  const auto add = [&](const nlohmann::json& element) {
    const std::optional<int64_t> number = integer_in(element, min, max);
    if (!number) fail(key, fmt::format("{} or a list of them", integer_range(min, max)));
    result.push_back(static_cast<int32_t>(*number));
  };
  if (value->is_array()) {
    for (const nlohmann::json& element : *value) add(element);
  } else {
    add(*value);
  }
  return result;
}

std::vector<std::string> ConfigReader::texts(std::string_view key) {
  const nlohmann::json* value = get(key);
  std::vector<std::string> result;
  if (value == nullptr || value->is_null()) return result;
  if (!value->is_array()) fail(key, "a list of strings");
  for (const nlohmann::json& element : *value) {
    if (!element.is_string()) fail(key, "a list of strings");
    result.push_back(element.get<std::string>());
  }
  return result;
}

void ConfigReader::fail(std::string_view key, std::string_view expected) const {
  const auto found = object_.find(key);
  throw Error(ErrorCode::kCorruptData, "{}: {}{} is {}, not {}", what_, prefix_, key,
              found == object_.end() ? "absent" : describe(*found), expected);
}

void ConfigReader::refuse(std::string_view key, std::string_view reason) const {
  const auto found = object_.find(key);
  throw Error(ErrorCode::kUnsupported, "{}: {}{} {} is not supported: {}", what_, prefix_, key,
              found == object_.end() ? "(absent)" : describe(*found), reason);
}

std::vector<std::string> ConfigReader::unused() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : object_.items()) {
    if (read_.contains(key)) continue;
    const std::string printed = printable(key);
    result.push_back(prefix_ + printed.substr(1, printed.size() - (printed.ends_with("...\"") ? 4 : 2)));
  }
  return result;
}

}  // namespace reprise::load
