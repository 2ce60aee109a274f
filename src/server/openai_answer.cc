#include "server/openai_answer.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/error_response.h"

namespace reprise::server {

void read_stream_fields(RequestFields& fields, OpenAiAnswerOptions& options) {
  options.stream = fields.boolean("stream", false);
  const Json* value = fields.find("stream_options");
  if (value == nullptr) return;
  RequestFields stream_options(*value, "stream_options");
  options.include_usage = stream_options.boolean("include_usage", false);
  options.continuous_usage = stream_options.boolean("continuous_usage_stats", false);
  // It pads events against those who look at the lengths of encrypted ones; there is no encryption here.
  stream_options.ignore({"include_obfuscation"});
  stream_options.finish();
  if (!options.stream) fields.fail("stream_options", "stream_options is given, but stream is not true.");
}

std::string_view finish_text(const engine::RequestOutput& output) {
  return output.finish == engine::FinishReason::kCancelled ? "abort" : engine::name_of(output.finish);
}

Json matched_stop(const engine::RequestOutput& output) {
  if (output.finish != engine::FinishReason::kStop) return nullptr;
  if (!output.stop_string.empty()) return output.stop_string;
  return output.stop_token ? Json(*output.stop_token) : Json();
}

OpenAiAnswer::OpenAiAnswer(std::shared_ptr<Exchange> exchange, OpenAiAnswerOptions options, size_t choices,
                           int64_t prompt_tokens)
    : exchange_(std::move(exchange)),
      options_(std::move(options)),
      outputs_(choices),
      begun_(choices),
      prompt_tokens_(prompt_tokens) {
  frame_ = R"(data: {"id":)";
  append_json_string(frame_, options_.id);
  frame_ += R"(,"object":)";
  append_json_string(frame_, options_.chunk_object);
  frame_ += fmt::format(R"(,"created":{},"model":)", options_.created);
  append_json_string(frame_, options_.model);
  frame_ += R"(,"system_fingerprint":null,"choices":[)";
}

void OpenAiAnswer::begin() {
  if (options_.stream) exchange_->begin_stream("text/event-stream");
}

void OpenAiAnswer::on_event(ChoiceEvent& event) {
  if (!begun_[event.choice]) {
    begun_[event.choice] = true;
    // Several outputs of a prompt read it once.
    if (event.choice % static_cast<size_t>(options_.choices) == 0) cached_tokens_ += event.cached_tokens;
    if (options_.stream) begin_choice(event.choice);
  }
  if (options_.stream) {
    if (event.token) ++completion_tokens_;
    stream_event(event);
  }
  if (!event.output) return;
  if (!options_.stream) completion_tokens_ += static_cast<int64_t>(event.output->token_ids.size());
  outputs_[event.choice] = std::move(event.output);
}

void OpenAiAnswer::on_complete() {
  if (options_.stream) {
    if (options_.include_usage) {
      chunks_ += frame_;
      chunks_ += "],\"usage\":";
      append_usage(chunks_);
      chunks_ += "}\n\n";
    }
    chunks_ += kDoneEvent;
    flush();
    exchange_->end_stream();
    return;
  }
  Json choices = Json::array();
  for (size_t i = 0; i < outputs_.size(); ++i) choices.push_back(choice_json(i, *outputs_[i]));
  const Json answer = {{"id", options_.id},       {"object", options_.object},     {"created", options_.created},
                       {"model", options_.model}, {"system_fingerprint", nullptr}, {"choices", std::move(choices)}};
  std::string body = to_text(answer);
  body.pop_back();
  body += ",\"usage\":";
  append_usage(body);
  body += '}';
  exchange_->respond({.status = 200, .body = std::move(body), .headers = {}});
}

void OpenAiAnswer::flush() {
  if (chunks_.empty()) return;
  exchange_->write(chunks_);
  chunks_.clear();
}

void OpenAiAnswer::on_failure(const Error& error) {
  flush();
  end_with_error(*exchange_, options_.stream, error);
}

void OpenAiAnswer::add_chunk(size_t choice, std::string_view body) {
  chunks_ += frame_;
  chunks_ += "{\"index\":";
  chunks_ += fmt::format_int(choice).c_str();
  chunks_ += ',';
  chunks_ += body;
  chunks_ += "}]";
  if (options_.continuous_usage) {
    chunks_ += ",\"usage\":";
    append_usage(chunks_);
  } else if (options_.include_usage) {
    chunks_ += ",\"usage\":null";
  }
  chunks_ += "}\n\n";
}

void OpenAiAnswer::append_usage(std::string& out) const {
  fmt::format_to(
      std::back_inserter(out),
      R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{}}}}})",
      prompt_tokens_, completion_tokens_, prompt_tokens_ + completion_tokens_, cached_tokens_);
}

}  // namespace reprise::server
