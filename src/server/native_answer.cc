#include "server/native_answer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "server/error_response.h"
#include "server/openai_answer.h"
#include "server/token_logprobs.h"

namespace reprise::server {
namespace {

Json finish_reason(const engine::RequestOutput& output) {
  switch (output.finish) {
    case engine::FinishReason::kStop:
      return {{"type", "stop"}, {"matched", matched_stop(output)}};
    case engine::FinishReason::kLength:
      return {{"type", "length"}, {"length", output.token_ids.size()}};
    default:
      return {{"type", "abort"}, {"message", "The request was aborted."}};
  }
}

}  // namespace

NativeAnswer::NativeAnswer(std::shared_ptr<Exchange> exchange, GenerateRequest request,
                           const text::Tokenizer& tokenizer, bool incremental,
                           std::chrono::steady_clock::time_point arrival)
    : exchange_(std::move(exchange)),
      request_(std::move(request)),
      tokenizer_(tokenizer),
      incremental_(incremental),
      arrival_(arrival) {
  for (size_t item = 0; item < request_.items.size(); ++item) {
    for (int32_t i = 0; i < request_.items[item].sampling.choices; ++i) states_.emplace_back().item = item;
  }
}

void NativeAnswer::begin() {
  if (request_.stream) exchange_->begin_stream("text/event-stream");
}

void NativeAnswer::on_event(ChoiceEvent& event) {
  State& state = states_[event.choice];
  if (request_.stream) {
    state.text += event.text;
    if (event.token) {
      state.ids.push_back(*event.token);
      ++state.completion_tokens;
    }
    if (event.logprobs) state.logprobs.push_back(std::move(*event.logprobs));
    for (auto& position : event.prompt_logprobs) state.prompt_logprobs.push_back(std::move(position));
  }
  if (event.output) {
    state.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - arrival_).count();
    state.output = std::move(event.output);
    if (!request_.stream) {
      state.text = state.output->text;
      state.ids = state.output->token_ids;
      state.completion_tokens = static_cast<int64_t>(state.ids.size());
      state.logprobs = state.output->logprobs;
      state.prompt_logprobs = state.output->prompt_logprobs;
    }
  }
  if (!request_.stream) return;
  Json json = output_json(state);
  if (request_.batch) json["index"] = event.choice;
  // An event with all text so far says what one that still waits for its client would have said.
  exchange_->write("data: " + to_text(json) + "\n\n", incremental_ ? -1 : static_cast<int64_t>(event.choice));
  if (!incremental_) return;
  state.text.clear();
  state.ids.clear();
  state.logprobs.clear();
}

void NativeAnswer::on_complete() {
  if (request_.stream) {
    exchange_->write("data: [DONE]\n\n");
    exchange_->end_stream();
    return;
  }
  Json answer = Json::array();
  for (const State& state : states_) answer.push_back(output_json(state));
  exchange_->respond({.status = 200, .body = to_text(request_.batch ? answer : answer.front()), .headers = {}});
}

void NativeAnswer::on_failure(const Error& error) {
  if (!request_.stream) {
    exchange_->respond(error_response(std::make_exception_ptr(error)));
    return;
  }
  exchange_->write("data: " + error_json(error) + "\n\n");
  exchange_->write("data: [DONE]\n\n");
  exchange_->end_stream();
}

Json NativeAnswer::output_json(const State& state) const {
  const GenerateItem& item = request_.items[state.item];
  Json meta = {{"id", item.name},
               {"finish_reason", state.output ? finish_reason(*state.output) : Json()},
               {"prompt_tokens", item.prompt.ids.size()},
               {"completion_tokens", state.completion_tokens},
               {"cached_tokens", state.output ? state.output->cached_tokens : 0},
               {"weight_version", "default"}};
  if (state.output) {
    meta["total_retractions"] = state.output->preemptions;
    meta["e2e_latency"] = state.seconds;
  }
  if (item.logprobs) add_logprobs(state, meta);
  return {{"text", state.text}, {"output_ids", state.ids}, {"meta_info", std::move(meta)}};
}

void NativeAnswer::add_logprobs(const State& state, Json& meta) const {
  const GenerateItem& item = request_.items[state.item];
  Json input = logprob_list(state.prompt_logprobs);
  Json input_top = top_list(state.prompt_logprobs);
  if (item.logprob_start == 0) {
    // Nothing predicts the first token.
    Json first = entry(0, item.prompt.ids.front());
    first[0] = nullptr;
    input.insert(input.begin(), std::move(first));
    input_top.insert(input_top.begin(), nullptr);
  }
  meta["input_token_logprobs"] = std::move(input);
  meta["output_token_logprobs"] = logprob_list(state.logprobs);
  if (item.top_logprobs == 0) return;
  meta["input_top_logprobs"] = std::move(input_top);
  meta["output_top_logprobs"] = top_list(state.logprobs);
}

Json NativeAnswer::entry(double logprob, int32_t token) const {
  return Json::array({logprob, token, request_.text_in_logprobs ? Json(token_text(tokenizer_, token)) : Json()});
}

Json NativeAnswer::logprob_list(const std::vector<engine::PositionLogprobs>& positions) const {
  Json list = Json::array();
  for (const auto& position : positions) {
    list.push_back(entry(finite_logprob(position.chosen.logprob), position.chosen.token));
  }
  return list;
}

Json NativeAnswer::top_list(const std::vector<engine::PositionLogprobs>& positions) const {
  Json list = Json::array();
  for (const auto& position : positions) {
    Json alternatives = Json::array();
    for (const auto& alternative : position.alternatives) {
      alternatives.push_back(entry(finite_logprob(alternative.logprob), alternative.token));
    }
    list.push_back(std::move(alternatives));
  }
  return list;
}

}  // namespace reprise::server
