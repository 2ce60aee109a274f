#include "server/request_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/nearest_name.h"
#include "server/request_error.h"

namespace reprise::server {
namespace {

/// An integer of so many digits that it is read as another number.
bool is_beyond_integers(const Json& value) {
  constexpr double kEnd = 9223372036854775808.0;
  return value.is_number_float() && std::abs(value.get<double>()) >= kEnd;
}

/// A number as it is, of all else the type.
std::string shown(const Json& value) {
  if (is_beyond_integers(value)) return "a number of more than 64 bits";
  return value.is_number() ? to_text(value) : value.type_name();
}

[[noreturn]] void wrong_type(const std::string& name, std::string_view expected, const Json& value) {
  // Of an element of a list the message tells which.
  std::string field = name.ends_with(']') ? name.substr(0, name.rfind('[')) : name;
  throw RequestError::parameter_error(std::move(field),
                                      fmt::format("{} is {}, but must be {}.", name, shown(value), expected));
}

/// What counts as not asked for.
bool is_nothing(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty());
}

}  // namespace

RequestFields::RequestFields(const Json& value, std::string path) : value_(value), path_(std::move(path)) {
  if (value_.is_object()) return;
  if (!path_.empty()) wrong_type(path_, "an object", value_);
  throw RequestError(ErrorCode::kInvalidArgument, fmt::format("The body is {}, but must be a JSON object.",
                                                              value_.is_null() ? "null" : value_.type_name()));
}

std::string RequestFields::name_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void RequestFields::fail(std::string_view key, std::string message) const {
  throw RequestError::parameter_error(name_of(key), std::move(message));
}

const Json* RequestFields::find(std::string_view key) {
  read_.emplace(key);
  const auto found = value_.find(key);
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

bool RequestFields::boolean(std::string_view key, bool otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) wrong_type(name_of(key), "true or false", *value);
  return value->get<bool>();
}

std::optional<int64_t> RequestFields::integer(std::string_view key, int64_t least, int64_t most) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool beyond = is_beyond_integers(*value);
  if (!value->is_number_integer() && !beyond) wrong_type(name_of(key), "an integer", *value);
  const bool too_large = beyond || (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX);
  const int64_t number = too_large ? INT64_MAX : value->get<int64_t>();
  if (too_large || number < least || number > most) {
    const std::string range = too_large            ? fmt::format("between {} and {}", least, most)
                              : most == INT64_MAX  ? fmt::format("at least {}", least)
                              : least == INT64_MIN ? fmt::format("at most {}", most)
                                                   : fmt::format("between {} and {}", least, most);
    fail(key, fmt::format("{} is {}, but must be {}.", name_of(key), shown(*value), range));
  }
  return number;
}

int32_t RequestFields::integer32(std::string_view key, int32_t otherwise, int32_t least, int32_t most) {
  return static_cast<int32_t>(integer(key, least, most).value_or(otherwise));
}

std::optional<double> RequestFields::number(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) wrong_type(name_of(key), "a number", *value);
  return value->get<double>();
}

std::optional<std::string> RequestFields::text(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong_type(name_of(key), "a string", *value);
  return value->get<std::string>();
}

std::vector<std::string> RequestFields::texts(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) wrong_type(name_of(key), "a string or a list of strings", *value);
  std::vector<std::string> all;
  for (const Json& element : *value) {
    if (!element.is_string()) wrong_type(fmt::format("{}[{}]", name_of(key), all.size()), "a string", element);
    all.push_back(element.get<std::string>());
  }
  return all;
}

std::vector<int32_t> RequestFields::token_ids(std::string_view key) {
  const Json* value = find(key);
  return value == nullptr ? std::vector<int32_t>() : read_token_ids(*value, name_of(key));
}

std::vector<int32_t> read_token_ids(const Json& value, const std::string& name) {
  if (!value.is_array()) wrong_type(name, "a list of token ids", value);
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const Json& element : value) {
    const std::string place = fmt::format("{}[{}]", name, ids.size());
    if (!element.is_number_integer()) wrong_type(place, "a token id", element);
    const bool fits = element.is_number_unsigned() ? element.get<uint64_t>() <= INT32_MAX : element.get<int64_t>() >= 0;
    if (!fits) {
      throw RequestError::parameter_error(name,
                                          fmt::format("{} is {}, which is no token id.", place, to_text(element)));
    }
    ids.push_back(element.get<int32_t>());
  }
  return ids;
}

void RequestFields::ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) read_.emplace(key);
}

void RequestFields::refuse(std::string_view key, std::string_view why) {
  const Json* value = find(key);
  if (value == nullptr || is_nothing(*value)) return;
  throw RequestError(ErrorCode::kUnsupported, fmt::format("{} is not supported: {}.", name_of(key), why), name_of(key),
                     "unsupported_parameter");
}

void RequestFields::explain(std::initializer_list<std::string_view> keys, std::string_view sentence) {
  for (const std::string_view key : keys) explained_.emplace(key, sentence);
}

void RequestFields::finish() const {
  for (const auto& [key, value] : value_.items()) {
    if (read_.contains(key)) continue;
    // Of a long one the beginning, as everywhere where words of clients are repeated.
    const std::string quoted = quote_text(name_of(key));
    std::string message = fmt::format("Unknown parameter: {}.", quoted);
    if (const auto found = explained_.find(key); found != explained_.end()) {
      message += " " + found->second;
    } else if (const std::string meant = nearest_name(key, std::vector(read_.begin(), read_.end())); !meant.empty()) {
      message += fmt::format(" Did you mean {}?", meant);
    }
    throw RequestError(ErrorCode::kUnsupported, std::move(message), quoted.substr(1, quoted.size() - 2),
                       "unknown_parameter");
  }
}

}  // namespace reprise::server
