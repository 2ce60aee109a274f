#include <nlohmann/json.hpp>

#include "server/chat_request.h"
#include "server/endpoints.h"
#include "server/json.h"
#include "server/request_error.h"
#include "server/request_fields.h"

namespace reprise::server {
namespace {

/// The prompt of a chat, as /v1/chat/completions would have it.
HttpResponse tokenize_messages(const ApiContext& context, RequestFields& fields) {
  ChatFields chat = read_chat_fields(fields);
  if (fields.boolean("add_special_tokens", false)) {
    fields.fail("add_special_tokens", "add_special_tokens belongs to prompt: of messages the template writes them.");
  }
  fields.finish();
  const text::ChatPrompt prompt = make_chat_prompt(context, fields, std::move(chat));
  return {
      .status = 200,
      .body = to_text({{"tokens", prompt.ids}, {"count", prompt.ids.size()}, {"max_model_len", context.max_context()}}),
      .headers = {}};
}

HttpResponse tokenize(const ApiContext& context, const HttpRequest& http) {
  const Json body = parse_json_body(http.body);
  RequestFields fields(body);
  const Json* prompt = fields.find("prompt");
  fields.text("model");
  if (fields.has("messages")) {
    if (prompt != nullptr) fields.fail("prompt", "prompt and messages cannot be given both.");
    return tokenize_messages(context, fields);
  }
  text::EncodeOptions options;
  options.add_special_tokens = fields.boolean("add_special_tokens", true);
  if (prompt == nullptr) {
    fields.explain({"text", "input", "content"}, "Here it is called prompt.");
    fields.finish();
    fields.fail("prompt", "prompt or messages must be given.");
  }
  const std::vector<std::string> texts = fields.texts("prompt");
  fields.finish();
  Json tokens = Json::array();
  Json counts = Json::array();
  for (const std::string& one : texts) {
    const std::vector<int32_t> ids = context.tokenizer().encode(one, options);
    counts.push_back(ids.size());
    tokens.push_back(ids);
  }
  const bool single = prompt->is_string();
  return {.status = 200,
          .body = to_text({{"tokens", single ? tokens.front() : tokens},
                           {"count", single ? counts.front() : counts},
                           {"max_model_len", context.max_context()}}),
          .headers = {}};
}

HttpResponse detokenize(const ApiContext& context, const HttpRequest& http) {
  const Json body = parse_json_body(http.body);
  RequestFields fields(body);
  const Json* tokens = fields.find("tokens");
  if (tokens == nullptr) fields.fail("tokens", "tokens is missing.");
  const bool skip_special = fields.boolean("skip_special_tokens", true);
  fields.text("model");
  fields.finish();
  const auto decode = [&](const Json& list, const std::string& name) {
    const std::vector<int32_t> ids = read_token_ids(list, name);
    for (const int32_t id : ids) {
      if (id >= context.vocabulary()) {
        throw RequestError::parameter_error(
            "tokens",
            fmt::format("{} holds token id {}, but the vocabulary ends at {}.", name, id, context.vocabulary() - 1));
      }
    }
    return context.tokenizer().decode(ids, skip_special);
  };
  Json text;
  if (tokens->is_array() && !tokens->empty() && tokens->front().is_array()) {
    text = Json::array();
    for (const Json& list : *tokens) text.push_back(decode(list, fmt::format("tokens[{}]", text.size())));
  } else {
    text = decode(*tokens, "tokens");
  }
  return {.status = 200, .body = to_text({{"text", std::move(text)}}), .headers = {}};
}

}  // namespace

void add_token_endpoints(Router& router, ApiContext& context) {
  const auto route = [&context](auto answer) {
    return Route{.handler =
                     [&context, answer](const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
                       context.require_ready();
                       exchange->respond(answer(context, request));
                     },
                 .kind = RouteKind::kWork,
                 .json_body = true};
  };
  for (const char* prefix : {"", "/v1"}) {
    router.add({"POST"}, fmt::format("{}/tokenize", prefix), route(tokenize));
    router.add({"POST"}, fmt::format("{}/detokenize", prefix), route(detokenize));
  }
}

}  // namespace reprise::server
