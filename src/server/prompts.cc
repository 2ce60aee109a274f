#include "server/prompts.h"

#include <nlohmann/json.hpp>

#include "server/request_error.h"

namespace reprise::server {
namespace {

Prompt text_prompt(const ApiContext& context, const Json& value) {
  Prompt prompt;
  prompt.text = value.get<std::string>();
  prompt.ids = context.tokenizer().encode(prompt.text);
  return prompt;
}

Prompt id_prompt(const ApiContext& context, const Json& value, const std::string& name) {
  Prompt prompt;
  prompt.ids = read_token_ids(value, name);
  prompt.text = context.tokenizer().decode(prompt.ids);
  return prompt;
}

}  // namespace

std::vector<Prompt> read_prompts(const ApiContext& context, const Json& value, const std::string& key) {
  if (value.is_string()) return {text_prompt(context, value)};
  if (!value.is_array()) {
    throw RequestError::parameter_error(
        key, fmt::format("{} is {}, but must be a string, a list of strings, a list of token ids or a list of such "
                         "lists.",
                         key, value.type_name()));
  }
  if (value.empty()) throw RequestError::parameter_error(key, fmt::format("{} cannot be an empty list.", key));
  if (value.front().is_number()) return {id_prompt(context, value, key)};
  if (value.size() > kMostRequestsAtOnce) {
    throw RequestError::parameter_error(
        key, fmt::format("{} has {} prompts, but may have {} at most.", key, value.size(), kMostRequestsAtOnce));
  }
  std::vector<Prompt> prompts;
  for (const Json& element : value) {
    const std::string name = fmt::format("{}[{}]", key, prompts.size());
    if (element.is_string() && value.front().is_string()) {
      prompts.push_back(text_prompt(context, element));
    } else if (element.is_array() && value.front().is_array()) {
      prompts.push_back(id_prompt(context, element, name));
    } else {
      throw RequestError::parameter_error(
          key, fmt::format("{} is {}, but must be a prompt like those before it.", name, element.type_name()));
    }
  }
  return prompts;
}

void check_prompt(const ApiContext& context, const std::vector<int32_t>& ids, int64_t new_tokens,
                  const std::string& key) {
  if (ids.empty()) throw RequestError::parameter_error(key, "Prompt cannot be empty");
  for (const int32_t id : ids) {
    if (id >= context.vocabulary()) {
      throw RequestError::parameter_error(
          key, fmt::format("{} holds token id {}, but the vocabulary ends at {}.", key, id, context.vocabulary() - 1));
    }
  }
  const auto length = static_cast<int64_t>(ids.size());
  const int64_t limit = context.max_context();
  if (length > limit || (length == limit && new_tokens > 0)) {
    throw RequestError(
        ErrorCode::kInvalidArgument,
        fmt::format("The input ({} tokens) is longer than the model's context length ({} tokens).", length, limit), key,
        "context_length_exceeded");
  }
  if (length + new_tokens > limit) {
    const std::string_view source = key == "messages" ? "input messages" : "prompt";
    throw RequestError(
        ErrorCode::kInvalidArgument,
        fmt::format("Requested token count exceeds the model's maximum context length of {} tokens. You requested a "
                    "total of {} tokens: {} tokens from the {} and {} tokens for the completion. Please "
                    "reduce the number of tokens in the {} or the completion to fit within the limit.",
                    limit, length + new_tokens, length, source, new_tokens, source),
        key, "context_length_exceeded");
  }
}

}  // namespace reprise::server
