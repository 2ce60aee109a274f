#include "client/batch_exchange.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/event_stream.h"

namespace reprise::client {
namespace {

/// Where one prompt of the batch stands.
struct BatchRow {
  int64_t tokens = 0;
  int64_t cached = 0;
  std::string finish;
};

class BatchAnswer final : public HttpReceiver {
 public:
  explicit BatchAnswer(size_t rows) : begin_(Clock::now()), rows_(rows) {}

  void on_status(int status, std::string_view /*content_type*/) override { status_ = status; }
  void on_body(std::string_view bytes, Clock::time_point at) override {
    if (status_ != 200) {
      body_ += bytes.substr(0, 65536 - std::min<size_t>(body_.size(), 65536));
      return;
    }
    const double seconds = std::chrono::duration<double>(at - begin_).count();
    stream_.feed(bytes, [&](std::string_view event) {
      if (event != "[DONE]") take(event, seconds);
    });
  }
  void on_end(const Error* error, Clock::time_point /*at*/) override {
    if (error != nullptr) failure_ = *error;
  }

  BatchTimes result() const {
    if (failure_) throw Error(*failure_);
    if (status_ != 200) {
      throw Error(ErrorCode::kIo, "the server answers with HTTP status {}: {}", status_, error_message(body_));
    }
    BatchTimes times{.first = first_, .latency = last_, .first_tokens = first_tokens_, .cached_tokens = std::nullopt};
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].finish != "length") {
        throw Error(ErrorCode::kIo, "prompt {} ended with '{}' after {} tokens, and not by its length", i,
                    rows_[i].finish, rows_[i].tokens);
      }
      times.output_tokens += rows_[i].tokens;
      if (told_cached_) times.cached_tokens = times.cached_tokens.value_or(0) + rows_[i].cached;
    }
    return times;
  }

 private:
  void take(std::string_view event, double seconds) {
    AnswerReader reader(Interface::kGenerate, true);
    const AnswerUpdate update = reader.read(event);
    BatchRow& row = rows_[index_of(event)];
    const int64_t more = std::max<int64_t>(0, update.output_tokens.value_or(0) - row.tokens);
    if (row.tokens == 0 && more > 0) first_ = seconds;
    row.tokens += more;
    tokens_ += more;
    if (first_ == seconds) first_tokens_ = tokens_;
    if (update.cached_tokens) row.cached = *update.cached_tokens;
    told_cached_ = told_cached_ || update.cached_tokens;
    if (!update.finish_reason.empty()) row.finish = update.finish_reason;
    last_ = seconds;
  }

  /// Which prompt an event belongs to; a batch of one need not say.
  size_t index_of(std::string_view event) const {
    const auto json = nlohmann::ordered_json::parse(event, nullptr, false);
    if (json.contains("index") && json["index"].is_number_unsigned() && json["index"] < rows_.size()) {
      return json["index"].get<size_t>();
    }
    if (rows_.size() == 1 && !json.contains("index")) return 0;
    throw Error(ErrorCode::kCorruptData, "the server does not say which prompt of the batch an event belongs to");
  }

  Clock::time_point begin_;
  std::vector<BatchRow> rows_;
  EventStream stream_;
  std::string body_;
  std::optional<Error> failure_;
  int status_ = 0;
  double first_ = 0, last_ = 0;
  int64_t tokens_ = 0, first_tokens_ = 0;
  bool told_cached_ = false;
};

}  // namespace

BatchTimes run_batch(HttpLoop& loop, std::span<const Prompt> prompts, int32_t output_tokens, double temperature) {
  nlohmann::ordered_json body;
  for (const Prompt& prompt : prompts) body["input_ids"].push_back(prompt.ids);
  body["sampling_params"] = {{"temperature", temperature}, {"max_new_tokens", output_tokens}, {"ignore_eos", true}};
  body["stream"] = true;
  HttpRequest request{"POST", "/generate", body.dump()};
  const auto answer = std::make_shared<BatchAnswer>(prompts.size());
  loop.start(std::move(request), answer);
  loop.run();
  return answer->result();
}

}  // namespace reprise::client
