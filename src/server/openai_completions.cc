#include <nlohmann/json.hpp>
#include <utility>

#include "server/endpoints.h"
#include "server/openai_answer.h"
#include "server/prompts.h"
#include "server/request_error.h"
#include "server/sampling_fields.h"
#include "server/token_logprobs.h"

namespace reprise::server {
namespace {

struct CompletionRequest {
  std::vector<Prompt> prompts;
  SamplingFields sampling;
  SchedulingFields scheduling;
  bool echo = false;
  std::optional<int32_t> logprobs;
  OpenAiAnswerOptions answer;

  size_t choices() const { return prompts.size() * static_cast<size_t>(sampling.choices); }
  /// Each prompt counted once.
  int64_t prompt_tokens() const {
    int64_t sum = 0;
    for (const Prompt& prompt : prompts) sum += static_cast<int64_t>(prompt.ids.size());
    return sum;
  }
};

CompletionRequest read_completion(const ApiContext& context, const Json& body, const std::string& request_id) {
  RequestFields fields(body);
  CompletionRequest request;
  request.sampling = read_openai_sampling(fields, context.model.generation_config, context.vocabulary());
  engine::SamplingParameters& parameters = request.sampling.parameters;
  parameters.max_new_tokens = fields.integer32("max_tokens", 16, 0);
  check_min_tokens(fields, request.sampling, "max_tokens");
  request.scheduling = read_scheduling(fields);
  request.echo = fields.boolean("echo", false);
  if (fields.has("logprobs")) {
    request.logprobs = fields.integer32("logprobs", 0, 0, engine::SamplingParameters::kMaxLogprobs);
    parameters.logprobs = request.logprobs;
    request.answer.heavy = true;
  }
  read_stream_fields(fields, request.answer);
  request.answer.id = fields.text("rid").value_or("cmpl-" + request_id);
  request.answer.object = request.answer.chunk_object = "text_completion";
  request.answer.model = context.model.name;
  request.answer.created = unix_time();
  request.answer.choices = request.sampling.choices;
  if (fields.integer("best_of").value_or(request.sampling.choices) != request.sampling.choices) {
    fields.fail("best_of", "best_of must be equal to n: choosing among more outputs is not built.");
  }
  fields.refuse("suffix", "text cannot be inserted");
  fields.refuse("return_hidden_states", "not built");
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) {
    fields.fail("prompt", fields.has("messages") ? "prompt is missing: messages belong to /v1/chat/completions."
                                                 : "prompt is missing.");
  }
  fields.text("model");
  // They tell the provider who asks and change nothing in the answer.
  fields.ignore({"user", "metadata", "store", "safety_identifier", "prompt_cache_key"});
  fields.explain(
      {"messages", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "chat_template_kwargs",
       "enable_thinking", "reasoning_effort", "add_generation_prompt", "continue_final_message", "separate_reasoning",
       "stream_reasoning", "modalities", "audio", "prediction", "web_search_options", "service_tier"},
      "It belongs to /v1/chat/completions.");
  fields.explain({"max_completion_tokens"}, "It belongs to /v1/chat/completions; here it is called max_tokens.");
  fields.explain({"top_logprobs"}, "It belongs to /v1/chat/completions; here logprobs is the number of alternatives.");
  fields.finish();
  request.prompts = read_prompts(context, *prompt, "prompt");
  for (const Prompt& one : request.prompts) check_prompt(context, one.ids, parameters.max_new_tokens, "prompt");
  if (request.choices() > kMostRequestsAtOnce) {
    fields.fail("n", fmt::format("n times the number of prompts may be {} at most.", kMostRequestsAtOnce));
  }
  return request;
}

class CompletionAnswer : public OpenAiAnswer {
 public:
  CompletionAnswer(std::shared_ptr<Exchange> exchange, CompletionRequest request, const text::Tokenizer& tokenizer)
      : OpenAiAnswer(std::move(exchange), request.answer, request.choices(), request.prompt_tokens()),
        request_(std::move(request)),
        tokenizer_(tokenizer),
        states_(request_.choices()) {}

 protected:
  void stream_event(const ChoiceEvent& event) override {
    State& state = states_[event.choice];
    std::string text;
    if (!state.begun && request_.echo) {
      text = prompt_of(event.choice).text;
      if (request_.logprobs) state.logprobs.add_prompt(tokenizer_, prompt_of(event.choice).ids, event.prompt_logprobs);
    }
    const bool begins = !std::exchange(state.begun, true) && request_.echo;
    text += event.text;
    const bool has_logprobs = event.token && event.logprobs;
    if (has_logprobs) state.logprobs.add(tokenizer_, *event.token, &*event.logprobs);
    if (text.empty() && !has_logprobs && !begins && !event.output) return;
    std::string body = "\"text\":";
    append_json_string(body, text);
    body += ",\"logprobs\":";
    body += request_.logprobs ? state.logprobs.take() : "null";
    if (event.output) {
      body += fmt::format(R"(,"finish_reason":"{}","matched_stop":{})", finish_text(*event.output),
                          to_text(matched_stop(*event.output)));
    } else {
      body += R"(,"finish_reason":null,"matched_stop":null)";
    }
    add_chunk(event.choice, body);
  }

  Json choice_json(size_t choice, const engine::RequestOutput& output) override {
    Json json = {{"index", choice},
                 {"text", (request_.echo ? prompt_of(choice).text : "") + output.text},
                 {"logprobs", nullptr},
                 {"finish_reason", finish_text(output)},
                 {"matched_stop", matched_stop(output)}};
    if (request_.logprobs) {
      CompletionLogprobs logprobs;
      if (request_.echo) logprobs.add_prompt(tokenizer_, prompt_of(choice).ids, output.prompt_logprobs);
      for (size_t i = 0; i < output.logprobs.size(); ++i) {
        logprobs.add(tokenizer_, output.token_ids[i], &output.logprobs[i]);
      }
      json["logprobs"] = Json::parse(logprobs.take());
    }
    return json;
  }

 private:
  struct State {
    bool begun = false;
    CompletionLogprobs logprobs;
  };
  const Prompt& prompt_of(size_t choice) const {
    return request_.prompts[choice / static_cast<size_t>(request_.sampling.choices)];
  }

  const CompletionRequest request_;
  const text::Tokenizer tokenizer_;
  std::vector<State> states_;
};

void complete(const ApiContext& context, const HttpRequest& http, const std::shared_ptr<Exchange>& exchange) {
  const auto arrival = std::chrono::steady_clock::now();
  context.require_ready();
  CompletionRequest request = read_completion(context, parse_json_body(http.body), http.unique_id);
  std::vector<engine::Request> requests;
  for (const Prompt& prompt : request.prompts) {
    for (int32_t i = 0; i < request.sampling.choices; ++i) {
      engine::Request one = make_engine_request(prompt.ids, request.sampling, i, request.scheduling, request.answer.id);
      if (request.echo) one.prompt_logprobs = request.logprobs;
      requests.push_back(std::move(one));
    }
  }
  std::vector<std::vector<std::string>> names(requests.size(), {request.answer.id});
  auto answer = std::make_unique<CompletionAnswer>(exchange, std::move(request), context.tokenizer());
  Generation::start(context.generation_host(), exchange, std::move(requests), std::move(names), std::move(answer),
                    arrival);
}

}  // namespace

void add_completion_endpoint(Router& router, ApiContext& context) {
  router.add(
      {"POST"}, "/v1/completions",
      {.handler = [&context](const HttpRequest& request,
                             const std::shared_ptr<Exchange>& exchange) { complete(context, request, exchange); },
       .kind = RouteKind::kWork,
       .json_body = true});
}

}  // namespace reprise::server
