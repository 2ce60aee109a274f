#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api_context.h"
#include "server/openai_answer.h"
#include "server/sampling_fields.h"
#include "text/assistant_parser.h"
#include "text/chat_prompt.h"

namespace reprise::server {

/// A request of /v1/chat/completions, read and checked.
struct ChatCompletionRequest {
  text::ChatPrompt prompt;
  SamplingFields sampling;
  SchedulingFields scheduling;
  std::optional<int32_t> top_logprobs;  ///< absent: no log probabilities
  bool stream_reasoning = true;
  text::AssistantParserOptions parser;
  OpenAiAnswerOptions answer;
};

/// What of a body becomes the prompt; the rest is for read_chat_request(). Needs no model, so that parsers of requests
/// can be tested alone.
struct ChatFields {
  text::ChatRequest chat;
  text::ChatPromptOptions prompt;
  bool tools = false;  ///< the model was told of tools, and may call them
};
ChatFields read_chat_fields(RequestFields& fields);

/// The prompt of what was read from `fields`. Throws RequestError for what the model's template does not read, or
/// refuses.
text::ChatPrompt make_chat_prompt(const ApiContext& context, const RequestFields& fields, ChatFields chat);

/// Throws RequestError for faults of the request.
ChatCompletionRequest read_chat_request(const ApiContext& context, const Json& body, const std::string& request_id);

}  // namespace reprise::server
