#include "text/assistant_message.h"

#include <nlohmann/json.hpp>
#include <optional>

namespace reprise::text {
namespace {

using nlohmann::json;

constexpr std::string_view kJsonSpace = " \t\n\r";

/// Walks over the members of a JSON object whose text is known to be valid. What it gives are parts of the text:
/// parsing and writing again would change how numbers are spelled.
class MemberWalk {
 public:
  explicit MemberWalk(std::string_view object) : text_(object), at_(object.find('{') + 1) {}

  /// The next key and value; false at the end.
  bool next(std::string_view& key, std::string_view& value) {
    skip(std::string(kJsonSpace) + ",");
    if (text_[at_] == '}') return false;
    key = take_value();
    skip(std::string(kJsonSpace) + ":");
    value = take_value();
    return true;
  }

 private:
  void skip(std::string_view characters) { at_ = text_.find_first_not_of(characters, at_); }

  void skip_string() {
    for (++at_; text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    ++at_;
  }

  std::string_view take_value() {
    const size_t begin = at_;
    if (text_[at_] == '"') {
      skip_string();
    } else if (text_[at_] == '{' || text_[at_] == '[') {
      int depth = 0;
      do {
        const char character = text_[at_];
        if (character == '"') {
          skip_string();
          continue;
        }
        if (character == '{' || character == '[') ++depth;
        if (character == '}' || character == ']') --depth;
        ++at_;
      } while (depth > 0);
    } else {
      at_ = text_.find_first_of(" \t\n\r,}", at_);
    }
    return text_.substr(begin, at_ - begin);
  }

  std::string_view text_;
  size_t at_;
};

/// The text of the arguments; none when they are no object.
std::optional<std::string> arguments_of(std::string_view value) {
  if (value.starts_with('{')) return std::string(value);
  if (value == "null") return "{}";
  if (!value.starts_with('"')) return std::nullopt;
  const std::string text = json::parse(value).get<std::string>();
  const json inner = json::parse(text, nullptr, false);
  return inner.is_object() ? std::optional(text) : std::nullopt;
}

}  // namespace

void AssistantMessage::add(const AssistantDelta& delta) {
  switch (delta.kind) {
    case AssistantDelta::Kind::kReasoning:
      reasoning += delta.text;
      break;
    case AssistantDelta::Kind::kContent:
      content += delta.text;
      break;
    case AssistantDelta::Kind::kToolCall:
      calls.push_back(delta.call);
      break;
  }
}

bool read_tool_call(std::string_view body, ToolCall& call) {
  const json value = json::parse(body, nullptr, false);
  if (!value.is_object()) return false;
  const auto name = value.find("name");
  if (name == value.end() || !name->is_string() || name->get_ref<const std::string&>().empty()) return false;
  std::optional<std::string> arguments = "{}";
  MemberWalk members(body);
  for (std::string_view key, text; members.next(key, text);) {
    const std::string spelled = json::parse(key).get<std::string>();
    if (spelled != "arguments" && spelled != "parameters") continue;
    arguments = arguments_of(text);
    if (!arguments) return false;
  }
  call.name = name->get<std::string>();
  call.arguments = std::move(*arguments);
  return true;
}

}  // namespace reprise::text
