#include "text/chat_messages.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace reprise::text {

namespace {

template <typename... Args>
[[noreturn]] void refuse_message(const std::string& place, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::kInvalidArgument, "{}: {}", place, fmt::format(format, std::forward<Args>(args)...));
}

const JinjaMapping& require_mapping(const JinjaValue& value, const std::string& place) {
  if (!value.mapping()) refuse_message(place, "expected an object, found {}", value.type_name());
  return *value.mapping();
}

/// A copy of the mapping in which `key` has another value.
JinjaMapping with_entry(const JinjaMapping& mapping, std::string_view key, JinjaValue value) {
  JinjaMapping copy;
  for (const auto& [name, entry] : mapping.entries()) copy.insert(name, entry);
  copy.insert(JinjaValue(std::string(key), Origin::kInput), std::move(value));
  return copy;
}

MarkedText text_of_part(const JinjaValue& part, const std::string& place) {
  const JinjaMapping& fields = require_mapping(part, place);
  const JinjaValue* type = fields.find("type");
  if (!type || !type->text()) refuse_message(place, "a part needs a 'type'");
  if (type->text()->bytes() != "text") {
    refuse_message(place, "parts of type '{}' are not supported: the model reads text", type->text()->bytes());
  }
  const JinjaValue* text = fields.find("text");
  if (!text || !text->text()) refuse_message(place, "a text part needs 'text', a string");
  return *text->text();
}

JinjaValue normalize_content(const JinjaValue* content, const std::string& place) {
  if (!content || content->is_none()) return JinjaValue(std::string(), Origin::kInput);
  if (content->text()) return *content;
  if (!content->list()) {
    refuse_message(place, "expected a string or a list of parts, found {}", content->type_name());
  }
  MarkedText joined;
  const auto& parts = content->list()->elements();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined.append(" ", Origin::kInput);
    joined.append(text_of_part(parts[i], fmt::format("{}[{}]", place, i)));
  }
  return JinjaValue(std::move(joined));
}

JinjaValue normalize_tool_call(const JinjaValue& call, const std::string& place) {
  const JinjaMapping& fields = require_mapping(call, place);
  const JinjaValue* function = fields.find("function");
  if (!function) return call;
  const std::string function_place = fmt::format("{}.function", place);
  const JinjaMapping& function_fields = require_mapping(*function, function_place);
  const JinjaValue* arguments = function_fields.find("arguments");
  if (!arguments || arguments->mapping()) return call;
  const std::string arguments_place = fmt::format("{}.arguments", function_place);
  if (!arguments->text()) refuse_message(arguments_place, "expected an object, found {}", arguments->type_name());
  JinjaValue parsed = jinja_value_from_json(arguments->text()->bytes(), arguments_place);
  require_mapping(parsed, arguments_place);
  return JinjaValue(
      with_entry(fields, "function", JinjaValue(with_entry(function_fields, "arguments", std::move(parsed)))));
}

JinjaValue normalize_tool_calls(const JinjaValue& calls, const std::string& place) {
  if (calls.is_none()) return calls;
  if (!calls.list()) refuse_message(place, "expected a list, found {}", calls.type_name());
  std::vector<JinjaValue> normalized;
  for (const JinjaValue& call : calls.list()->elements()) {
    normalized.push_back(normalize_tool_call(call, fmt::format("{}[{}]", place, normalized.size())));
  }
  return JinjaValue(JinjaList(std::move(normalized)));
}

JinjaValue normalize_message(const JinjaValue& message, const std::string& place) {
  const JinjaMapping& fields = require_mapping(message, place);
  const JinjaValue* role = fields.find("role");
  if (!role || !role->text()) refuse_message(place, "a message needs a 'role', a string");
  JinjaMapping normalized =
      with_entry(fields, "content", normalize_content(fields.find("content"), fmt::format("{}.content", place)));
  if (const JinjaValue* calls = fields.find("tool_calls")) {
    normalized =
        with_entry(normalized, "tool_calls", normalize_tool_calls(*calls, fmt::format("{}.tool_calls", place)));
  }
  return JinjaValue(std::move(normalized));
}

}  // namespace

JinjaValue normalize_messages(const JinjaValue& messages) {
  if (!messages.list()) refuse_message("messages", "expected a list, found {}", messages.type_name());
  std::vector<JinjaValue> normalized;
  for (const JinjaValue& message : messages.list()->elements()) {
    normalized.push_back(normalize_message(message, fmt::format("messages[{}]", normalized.size())));
  }
  return JinjaValue(JinjaList(std::move(normalized)));
}

}  // namespace reprise::text
