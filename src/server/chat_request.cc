#include "server/chat_request.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "server/prompts.h"
#include "server/request_error.h"

namespace reprise::server {
namespace {

/// Passes a part of the body on to templates.
text::JinjaValue template_value(const Json& value, std::string_view name) {
  return text::jinja_value_from_json(to_text(value), name);
}

/// An assistant's message may have calls alone, and of other roles the template knows what they need.
void require_content(const RequestFields& fields, const Json& message, size_t index) {
  const auto role = message.find("role");
  if (role == message.end() || (*role != "user" && *role != "system")) return;
  const auto content = message.find("content");
  if (content != message.end() && !content->is_null()) return;
  fields.fail("messages", fmt::format("messages[{}] has no content.", index));
}

void read_messages(RequestFields& fields, text::ChatRequest& chat) {
  const Json* messages = fields.find("messages");
  if (messages == nullptr) {
    fields.fail("messages", fields.has("prompt") ? "messages is missing: a prompt belongs to /v1/completions."
                                                 : "messages is missing.");
  }
  if (!messages->is_array()) {
    fields.fail("messages", fmt::format("messages is {}, but must be a list.", messages->type_name()));
  }
  if (messages->empty()) fields.fail("messages", "Messages cannot be empty.");
  for (size_t i = 0; i < messages->size(); ++i) require_content(fields, (*messages)[i], i);
  chat.messages = template_value(*messages, "messages");
}

/// True when the model is told of tools.
bool read_tools(RequestFields& fields, text::ChatRequest& chat) {
  const Json* tools = fields.find("tools");
  const Json* choice = fields.find("tool_choice");
  // One call after the other or several at once is up to the model; that there be one at most is not enforced.
  if (!fields.boolean("parallel_tool_calls", true)) {
    throw RequestError(ErrorCode::kUnsupported,
                       "parallel_tool_calls cannot be false: outputs are not bound to grammars.", "parallel_tool_calls",
                       "unsupported_parameter");
  }
  fields.refuse("functions", "use tools");
  fields.refuse("function_call", "use tool_choice");
  if (tools != nullptr) {
    if (!tools->is_array()) fields.fail("tools", fmt::format("tools is {}, but must be a list.", tools->type_name()));
    for (const Json& tool : *tools) {
      const bool named = tool.is_object() && tool.contains("function") && tool["function"].is_object() &&
                         tool["function"].contains("name") && tool["function"]["name"].is_string();
      if (!named) fields.fail("tools", "each of tools must have a function with a name.");
    }
  }
  const bool has_tools = tools != nullptr && !tools->empty();
  if (choice != nullptr && *choice == "none") return false;
  if (choice != nullptr && *choice != "auto") {
    if (!has_tools) {
      fields.fail("tool_choice", *choice == "required"
                                     ? "Tools cannot be empty if tool choice is set to required."
                                     : "Tools cannot be empty if tool choice is set to a specific tool.");
    }
    throw RequestError(ErrorCode::kUnsupported,
                       "tool_choice can only be \"auto\" or \"none\": outputs are not bound to grammars.",
                       "tool_choice", "unsupported_parameter");
  }
  if (has_tools) chat.tools = template_value(*tools, "tools");
  return has_tools;
}

void read_template_variables(RequestFields& fields, text::ChatRequest& chat) {
  chat.add_generation_prompt = fields.boolean("add_generation_prompt", true);
  if (const Json* thinking = fields.find("enable_thinking")) {
    chat.variables.emplace_back("enable_thinking", template_value(*thinking, "enable_thinking"));
  }
  if (const auto effort = fields.text("reasoning_effort")) {
    chat.variables.emplace_back("reasoning_effort", text::JinjaValue(*effort, text::Origin::kInput));
  }
  const Json* variables = fields.find("chat_template_kwargs");
  if (variables == nullptr) return;
  if (!variables->is_object()) fields.fail("chat_template_kwargs", "chat_template_kwargs must be an object.");
  for (const auto& [name, value] : variables->items()) {
    if (name == "messages" || name == "tools") {
      fields.fail("chat_template_kwargs", fmt::format("chat_template_kwargs cannot set {}.", name));
    }
    if (name == "add_generation_prompt") {
      if (!value.is_boolean()) {
        fields.fail("chat_template_kwargs",
                    fmt::format("chat_template_kwargs.{} is {}, but must be true or false.", name, value.type_name()));
      }
      chat.add_generation_prompt = value.get<bool>();
      continue;
    }
    chat.variables.emplace_back(name, template_value(value, "chat_template_kwargs"));
  }
}

void read_logprobs(RequestFields& fields, ChatCompletionRequest& request) {
  const bool wanted = fields.boolean("logprobs", false);
  const auto top = fields.integer("top_logprobs", 0, engine::SamplingParameters::kMaxLogprobs);
  if (top && !wanted && *top > 0) fields.fail("top_logprobs", "top_logprobs is given, but logprobs is not true.");
  if (!wanted) return;
  request.top_logprobs = static_cast<int32_t>(top.value_or(0));
  request.sampling.parameters.logprobs = request.top_logprobs;
}

/// What asks for something that is not text, or only tells the provider who asks.
void read_the_rest(RequestFields& fields) {
  for (const char* key : {"audio", "prediction", "web_search_options", "return_hidden_states", "session_params"}) {
    fields.refuse(key, "not built");
  }
  if (const Json* modalities = fields.find("modalities"); modalities != nullptr && *modalities != Json{"text"}) {
    fields.fail("modalities", "modalities can only be [\"text\"].");
  }
  fields.text("model");
  fields.ignore({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"});
}

void require_template(const ApiContext& context, std::string_view remedy) {
  if (context.model.chat_template) return;
  throw RequestError(ErrorCode::kUnsupported, fmt::format("The model has no chat template: {}.", remedy), {},
                     "no_chat_template");
}

/// Refuses what the model would not be told of.
void check_template_reads(const text::ChatTemplate& chat_template, const RequestFields& fields,
                          const text::ChatRequest& chat) {
  const std::string name = text::unread_variable(chat_template, chat);
  if (name.empty()) return;
  if (name == "tools") fields.fail(name, "The model's chat template knows no tools.");
  const bool own = name == "enable_thinking" || name == "reasoning_effort";
  fields.fail(own ? name : "chat_template_kwargs",
              fmt::format("The model's chat template does not read {}.", quote_text(name)));
}

/// What templates and tokenizers refuse is the messages' fault.
text::ChatPrompt make_prompt(const ApiContext& context, ChatFields fields) {
  try {
    return text::make_chat_prompt(*context.model.chat_template, context.tokenizer(), std::move(fields.chat),
                                  fields.prompt);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    throw RequestError::parameter_error("messages", error.what());
  }
}

/// Most tokens of the answer: what the request says, else all that there is room for.
int32_t new_tokens(const ApiContext& context, RequestFields& fields, size_t prompt_tokens) {
  const auto newer = fields.integer("max_completion_tokens", 0, INT32_MAX);
  const auto older = fields.integer("max_tokens", 0, INT32_MAX);
  if (newer && older && *newer != *older) {
    fields.fail("max_tokens", "max_tokens and max_completion_tokens contradict each other.");
  }
  if (newer || older) return static_cast<int32_t>(newer ? *newer : *older);
  return static_cast<int32_t>(std::max<int64_t>(1, context.max_context() - static_cast<int64_t>(prompt_tokens)));
}

}  // namespace

ChatFields read_chat_fields(RequestFields& fields) {
  ChatFields read;
  read_messages(fields, read.chat);
  read.tools = read_tools(fields, read.chat);
  read_template_variables(fields, read.chat);
  read.prompt.continue_final_message = fields.boolean("continue_final_message", false);
  if (read.prompt.continue_final_message) read.chat.add_generation_prompt = false;
  return read;
}

text::ChatPrompt make_chat_prompt(const ApiContext& context, const RequestFields& fields, ChatFields chat) {
  require_template(context, "there are no prompts of messages");
  check_template_reads(*context.model.chat_template, fields, chat.chat);
  chat.prompt.allow_special_in_content = context.options.allow_special_in_content;
  return make_prompt(context, std::move(chat));
}

ChatCompletionRequest read_chat_request(const ApiContext& context, const Json& body, const std::string& request_id) {
  require_template(context, "use /v1/completions");
  RequestFields fields(body);
  ChatCompletionRequest request;
  ChatFields chat = read_chat_fields(fields);
  request.sampling = read_openai_sampling(fields, context.model.generation_config, context.vocabulary());
  request.scheduling = read_scheduling(fields);
  read_logprobs(fields, request);
  read_stream_fields(fields, request.answer);
  read_the_rest(fields);
  request.parser.reasoning = fields.boolean("separate_reasoning", true);
  request.parser.tools = chat.tools;
  request.stream_reasoning = fields.boolean("stream_reasoning", true);
  request.answer.id = fields.text("rid").value_or("chatcmpl-" + request_id);
  request.answer.heavy = request.top_logprobs.has_value();
  request.answer.object = "chat.completion";
  request.answer.chunk_object = "chat.completion.chunk";
  request.answer.model = context.model.name;
  request.answer.created = unix_time();
  request.answer.choices = request.sampling.choices;
  fields.explain({"prompt"}, "It belongs to /v1/completions; here messages are asked for.");
  fields.explain({"echo", "suffix", "best_of"}, "It belongs to /v1/completions.");
  fields.integer("max_tokens");
  fields.integer("max_completion_tokens");
  fields.finish();
  request.prompt = make_chat_prompt(context, fields, std::move(chat));
  request.parser.starts_in_reasoning = request.prompt.opens_reasoning;
  request.sampling.parameters.max_new_tokens = new_tokens(context, fields, request.prompt.ids.size());
  check_min_tokens(fields, request.sampling,
                   fields.has("max_completion_tokens") ? "max_completion_tokens" : "max_tokens");
  check_prompt(context, request.prompt.ids, request.sampling.parameters.max_new_tokens, "messages");
  if (text::AssistantParser::markers_are_special(context.tokenizer())) request.sampling.skip_special_tokens = false;
  return request;
}

}  // namespace reprise::server
