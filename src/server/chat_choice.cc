#include "server/chat_choice.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace reprise::server {

std::string tool_call_id(std::string_view answer_id, int number) {
  // Clients send the ids back with the calls' results: they are unique for all answers of a conversation.
  const size_t dash = answer_id.find('-');
  const std::string_view base = dash == std::string_view::npos ? answer_id : answer_id.substr(dash + 1);
  return fmt::format("call_{}_{}", base, number);
}

Json chat_message(const text::AssistantMessage& message, std::string_view answer_id) {
  Json json = {{"role", "assistant"}, {"content", message.content}};
  if (message.content.empty() && !message.calls.empty()) json["content"] = nullptr;
  if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
  if (message.calls.empty()) return json;
  Json& calls = json["tool_calls"] = Json::array();
  for (const text::ToolCall& call : message.calls) {
    calls.push_back({{"id", tool_call_id(answer_id, static_cast<int>(calls.size()))},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return json;
}

std::vector<std::string> ChatChoiceStream::push(std::string_view text, bool last) {
  std::vector<std::string> deltas;
  for (const text::AssistantDelta& delta : parser_.push(text)) add(delta, deltas);
  if (!last) return deltas;
  for (const text::AssistantDelta& delta : parser_.finish()) add(delta, deltas);
  flush_reasoning(deltas);
  return deltas;
}

void ChatChoiceStream::add(const text::AssistantDelta& delta, std::vector<std::string>& deltas) {
  using Kind = text::AssistantDelta::Kind;
  if (delta.kind == Kind::kReasoning) {
    reasoning_ += delta.text;
    if (options_.stream_reasoning) flush_reasoning(deltas);
    return;
  }
  flush_reasoning(deltas);
  if (delta.kind == Kind::kContent) {
    std::string json = "{\"content\":";
    append_json_string(json, delta.text);
    deltas.push_back(json + "}");
    return;
  }
  const Json call = {{"index", calls_},
                     {"id", tool_call_id(options_.id, calls_)},
                     {"type", "function"},
                     {"function", {{"name", delta.call.name}, {"arguments", delta.call.arguments}}}};
  ++calls_;
  deltas.push_back(to_text({{"tool_calls", Json::array({call})}}));
}

void ChatChoiceStream::flush_reasoning(std::vector<std::string>& deltas) {
  if (reasoning_.empty()) return;
  std::string json = "{\"reasoning_content\":";
  append_json_string(json, std::exchange(reasoning_, {}));
  deltas.push_back(json + "}");
}

}  // namespace reprise::server
