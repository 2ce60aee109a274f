#include "client/generation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace reprise::client {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = {{"sglang", Interface::kGenerate},
                                           {"sglang-oai", Interface::kCompletions},
                                           {"sglang-oai-chat", Interface::kChat},
                                           {"vllm", Interface::kCompletions},
                                           {"vllm-chat", Interface::kChat}};
  return all;
}

Json generate_body(const Prompt& prompt, const GenerationSettings& settings) {
  Json body;
  if (prompt.ids.empty()) {
    body["text"] = prompt.text;
  } else {
    body["input_ids"] = prompt.ids;
  }
  body["sampling_params"] = {{"temperature", settings.temperature},
                             {"max_new_tokens", prompt.output_tokens},
                             {"ignore_eos", settings.ignore_eos}};
  if (!settings.stop.empty()) body["sampling_params"]["stop"] = settings.stop;
  body["stream"] = true;
  return body;
}

Json openai_body(Interface interface, const Prompt& prompt, const GenerationSettings& settings) {
  Json body{{"model", settings.model}};
  if (interface == Interface::kChat) {
    if (!prompt.ids.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "a chat takes texts, no token ids")
          .remedy("use --backend sglang-oai, or the dataset random");
    }
    body["messages"] = {{{"role", "user"}, {"content", prompt.text}}};
  } else if (prompt.ids.empty()) {
    body["prompt"] = prompt.text;
  } else {
    body["prompt"] = prompt.ids;
  }
  body["temperature"] = settings.temperature;
  body["max_tokens"] = prompt.output_tokens;
  // No field of OpenAI's own; servers that do not know it refuse it or go by the model's end.
  if (settings.ignore_eos) body["ignore_eos"] = true;
  if (!settings.stop.empty()) body["stop"] = settings.stop;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (settings.continuous_usage) body["stream_options"]["continuous_usage_stats"] = true;
  return body;
}

void put_over(Json& body, const std::string& extra) {
  if (extra.empty()) return;
  const Json fields = Json::parse(extra, nullptr, false);
  if (!fields.is_object()) {
    throw Error(ErrorCode::kInvalidArgument, "--extra-request-body is '{}', expected a JSON object", extra);
  }
  body.update(fields, true);
}

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> integer(const Json& object, const char* key) {
  const Json* value = find(object, key);
  return value != nullptr && value->is_number() ? std::optional(value->get<int64_t>()) : std::nullopt;
}

std::string text_of(const Json& object, const char* key) {
  const Json* value = find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

/// The message of {"error": {"message": ...}}, {"error": "..."} or {"object": "error", "message": ...}.
std::optional<std::string> reported_error(const Json& event) {
  if (const Json* error = find(event, "error")) {
    if (error->is_string()) return error->get<std::string>();
    const std::string message = text_of(*error, "message");
    return message.empty() ? error->dump(-1, ' ', false, Json::error_handler_t::replace) : message;
  }
  if (text_of(event, "object") == "error") return text_of(event, "message");
  return std::nullopt;
}

void read_usage(const Json& event, AnswerUpdate& update) {
  const Json* usage = find(event, "usage");
  if (usage == nullptr) return;
  update.output_tokens = integer(*usage, "completion_tokens");
  update.prompt_tokens = integer(*usage, "prompt_tokens");
  if (const Json* details = find(*usage, "prompt_tokens_details")) {
    update.cached_tokens = integer(*details, "cached_tokens");
  }
}

/// One choice of the OpenAI interfaces.
void read_choice(const Json& choice, Interface interface, AnswerUpdate& update) {
  update.finish_reason = text_of(choice, "finish_reason");
  if (update.finish_reason == "abort") throw Error(ErrorCode::kIo, "the server ended the request");
  if (interface == Interface::kCompletions) {
    update.text = text_of(choice, "text");
  } else if (const Json* delta = find(choice, "delta")) {
    update.text = text_of(*delta, "reasoning_content") + text_of(*delta, "content");
    const Json* calls = find(*delta, "tool_calls");
    update.has_content = calls != nullptr && calls->is_array() && !calls->empty();
  }
  update.has_content = update.has_content || !update.text.empty();
}

}  // namespace

const std::vector<std::string>& backend_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Backend& backend : backends()) all.push_back(backend.name);
    return all;
  }();
  return names;
}

Backend backend_from_name(const std::string& name) {
  for (const Backend& backend : backends()) {
    if (backend.name == name) return backend;
  }
  throw Error(ErrorCode::kInvalidArgument, "there is no backend '{}'", name);
}

HttpRequest generation_request(const Backend& backend, const Prompt& prompt, const GenerationSettings& settings) {
  HttpRequest request{"POST", {}, {}};
  Json body;
  if (backend.interface == Interface::kGenerate) {
    request.target = "/generate";
    body = generate_body(prompt, settings);
  } else {
    request.target = backend.interface == Interface::kChat ? "/v1/chat/completions" : "/v1/completions";
    body = openai_body(backend.interface, prompt, settings);
  }
  put_over(body, settings.extra_body);
  request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return request;
}

AnswerUpdate AnswerReader::read(std::string_view event) {
  const Json json = Json::parse(event, nullptr, false);
  if (!json.is_object()) {
    throw Error(ErrorCode::kCorruptData, "the server sent an event that is no JSON object: {}", event.substr(0, 200));
  }
  if (const std::optional<std::string> error = reported_error(json)) {
    throw Error(ErrorCode::kIo, "the server reports: {}", *error);
  }
  AnswerUpdate update;
  if (interface_ != Interface::kGenerate) {
    read_usage(json, update);
    const Json* choices = find(json, "choices");
    if (choices == nullptr && !update.output_tokens) {
      throw Error(ErrorCode::kCorruptData, "the server sent an event without choices: {}", event.substr(0, 200));
    }
    if (choices != nullptr && choices->is_array() && !choices->empty()) read_choice((*choices)[0], interface_, update);
    return update;
  }
  const Json* meta = find(json, "meta_info");
  if (meta == nullptr) {
    throw Error(ErrorCode::kCorruptData, "the server sent an event without meta_info: {}", event.substr(0, 200));
  }
  update.output_tokens = integer(*meta, "completion_tokens");
  update.prompt_tokens = integer(*meta, "prompt_tokens");
  update.cached_tokens = integer(*meta, "cached_tokens");
  if (const Json* finish = find(*meta, "finish_reason")) {
    update.finish_reason = finish->is_string() ? finish->get<std::string>() : text_of(*finish, "type");
    if (update.finish_reason == "abort") {
      throw Error(ErrorCode::kIo, "the server ended the request: {}", text_of(*finish, "message"));
    }
  }
  const std::string text = text_of(json, "text");
  // What was streamed stays as it was, so that its length is enough to know what is new.
  update.text = incremental_text_ ? text : text.substr(std::min(read_bytes_, text.size()));
  read_bytes_ = std::max(read_bytes_, text.size());
  update.has_content = !update.text.empty();
  return update;
}

std::string error_message(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  if (json.is_object()) {
    if (const std::optional<std::string> error = reported_error(json)) return *error;
  }
  std::string text(body.substr(0, 200));
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return text;
}

}  // namespace reprise::client
