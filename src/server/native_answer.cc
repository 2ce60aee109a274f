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

/// The elements of a list, each of which stands behind a comma.
std::string_view without_comma(std::string_view list) { return list.empty() ? list : list.substr(1); }

/// Text that is told again and again: more than this takes as long as an ordinary event of a hundred clients.
constexpr size_t kLong = size_t{16} << 10;

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
    for (int32_t i = 0; i < request_.items[item].sampling.choices; ++i) {
      State& state = states_.emplace_back();
      state.item = item;
      state.id = request_.items[item].names_of(i).front();
    }
    if (request_.items[item].logprobs) has_logprobs_ = true;
  }
}

void NativeAnswer::begin() {
  if (request_.stream) exchange_->begin_stream("text/event-stream");
}

void NativeAnswer::on_event(ChoiceEvent& event) {
  State& state = states_[event.choice];
  state.cached_tokens = event.cached_tokens;
  if (request_.stream) add(state, event);
  if (event.output) {
    state.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - arrival_).count();
    state.output = std::move(event.output);
    if (!request_.stream) {
      const engine::RequestOutput& output = *state.output;
      add_text(state, output.text);
      for (const int32_t token : output.token_ids) add_token(state, token);
      for (const auto& position : output.logprobs) add_logprobs(state, position);
      add_prompt_logprobs(state, output.prompt_logprobs);
    }
  }
  if (!request_.stream) return;
  if (!incremental_) {
    state.news = true;
    return;
  }
  news_ += "data: ";
  news_ += output_text(event.choice);
  news_ += "\n\n";
  state.told = true;
  for (std::string* told : {&state.text, &state.ids, &state.logprobs, &state.top_logprobs, &state.prompt_logprobs,
                            &state.prompt_top_logprobs}) {
    told->clear();
  }
}

void NativeAnswer::flush() {
  if (incremental_) return flush_news();
  size_t bytes = 0;
  for (size_t choice = 0; choice < states_.size(); ++choice) {
    if (!std::exchange(states_[choice].news, false)) continue;
    // An event with all text so far says what one that still waits for its client would have said.
    const std::string event = fmt::format("data: {}\n\n", output_text(choice));
    bytes += event.size();
    exchange_->write(event, static_cast<int64_t>(choice));
  }
  is_long_ = bytes > kLong;
}

void NativeAnswer::add(State& state, const ChoiceEvent& event) const {
  add_text(state, event.text);
  if (event.token) add_token(state, *event.token);
  if (event.logprobs) add_logprobs(state, *event.logprobs);
  if (!event.prompt_logprobs.empty()) add_prompt_logprobs(state, event.prompt_logprobs);
}

void NativeAnswer::add_text(State& state, std::string_view text) const {
  if (text.empty()) return;
  std::string spelled;
  append_json_string(spelled, text);
  state.text.append(spelled, 1, spelled.size() - 2);
}

void NativeAnswer::add_token(State& state, int32_t token) const {
  state.ids += fmt::format(",{}", token);
  ++state.completion_tokens;
}

void NativeAnswer::add_logprobs(State& state, const engine::PositionLogprobs& position) const {
  append_entry(state.logprobs, finite_logprob(position.chosen.logprob), position.chosen.token);
  append_alternatives(state.top_logprobs, position);
}

void NativeAnswer::add_prompt_logprobs(State& state, std::span<const engine::PositionLogprobs> positions) const {
  for (const engine::PositionLogprobs& position : positions) {
    append_entry(state.prompt_logprobs, finite_logprob(position.chosen.logprob), position.chosen.token);
    append_alternatives(state.prompt_top_logprobs, position);
  }
}

void NativeAnswer::append_entry(std::string& list, std::optional<double> logprob, int32_t token) const {
  list += fmt::format(",[{},{},", logprob ? fmt::format("{}", *logprob) : "null", token);
  if (request_.text_in_logprobs) {
    append_json_string(list, token_text(tokenizer_, token));
  } else {
    list += "null";
  }
  list += ']';
}

void NativeAnswer::append_alternatives(std::string& list, const engine::PositionLogprobs& position) const {
  std::string alternatives;
  for (const engine::TokenLogprob& one : position.alternatives) {
    append_entry(alternatives, finite_logprob(one.logprob), one.token);
  }
  list += fmt::format(",[{}]", without_comma(alternatives));
}

void NativeAnswer::on_complete() {
  if (request_.stream) {
    news_ += kDoneEvent;
    flush_news();
    exchange_->end_stream();
    return;
  }
  std::string answer;
  for (size_t choice = 0; choice < states_.size(); ++choice) answer += fmt::format(",{}", output_text(choice));
  answer.erase(0, 1);
  if (request_.batch) answer = fmt::format("[{}]", answer);
  exchange_->respond({.status = 200, .body = std::move(answer), .headers = {}});
}

void NativeAnswer::on_failure(const Error& error) {
  flush_news();
  end_with_error(*exchange_, request_.stream, error);
}

void NativeAnswer::flush_news() {
  if (news_.empty()) return;
  exchange_->write(news_);
  news_.clear();
}

std::string NativeAnswer::output_text(size_t choice) const {
  const State& state = states_[choice];
  const GenerateItem& item = request_.items[state.item];
  std::string json =
      fmt::format(R"({{"text":"{}","output_ids":[{}],"meta_info":{{"id":)", state.text, without_comma(state.ids));
  append_json_string(json, state.id);
  json += fmt::format(R"(,"finish_reason":{},"prompt_tokens":{},"completion_tokens":{},"cached_tokens":{})",
                      state.output ? to_text(finish_reason(*state.output)) : "null", item.prompt.ids.size(),
                      state.completion_tokens, state.cached_tokens);
  json += R"(,"weight_version":"default")";
  if (state.output) {
    json += fmt::format(R"(,"total_retractions":{},"e2e_latency":{})", state.output->preemptions, state.seconds);
  }
  if (item.logprobs) {
    std::string prompt_entries;
    std::string prompt_top;
    if (item.logprob_start == 0 && !state.told) {
      // Nothing predicts the first token.
      append_entry(prompt_entries, std::nullopt, item.prompt.ids.front());
      prompt_top = ",null";
    }
    prompt_entries += state.prompt_logprobs;
    prompt_top += state.prompt_top_logprobs;
    json += fmt::format(R"(,"input_token_logprobs":[{}],"output_token_logprobs":[{}])", without_comma(prompt_entries),
                        without_comma(state.logprobs));
    if (item.top_logprobs > 0) {
      json += fmt::format(R"(,"input_top_logprobs":[{}],"output_top_logprobs":[{}])", without_comma(prompt_top),
                          without_comma(state.top_logprobs));
    }
  }
  json += '}';
  if (request_.stream && request_.batch) json += fmt::format(",\"index\":{}", choice);
  json += '}';
  return json;
}

}  // namespace reprise::server
