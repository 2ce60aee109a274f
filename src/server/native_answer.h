#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/generation.h"
#include "server/native_request.h"

namespace reprise::server {

/// Answers of /generate: {"text", "output_ids", "meta_info"} for each output.
class NativeAnswer : public AnswerWriter {
 public:
  /// `incremental`: events of a stream carry what is new instead of all so far.
  NativeAnswer(std::shared_ptr<Exchange> exchange, GenerateRequest request, const text::Tokenizer& tokenizer,
               bool incremental, std::chrono::steady_clock::time_point arrival);

  bool wants_tokens() const override { return request_.stream; }
  bool is_heavy() const override { return has_logprobs_ || is_long_; }
  bool gathers() const override { return request_.stream && !incremental_; }
  void begin() override;
  void on_event(ChoiceEvent& event) override;
  void flush() override;
  void on_complete() override;
  void on_failure(const Error& error) override;

 private:
  /// What an output has come to, in pieces of JSON: a stream that tells all so far would otherwise spell it again for
  /// each token.
  struct State {
    size_t item = 0;
    std::string id;
    std::string text;  ///< escaped
    // Elements of lists, each behind a comma.
    std::string ids;
    std::string logprobs;
    std::string top_logprobs;
    std::string prompt_logprobs;
    std::string prompt_top_logprobs;
    int64_t completion_tokens = 0;
    int32_t cached_tokens = 0;
    std::unique_ptr<engine::RequestOutput> output;
    double seconds = 0;  ///< until it ended
    bool news = false;   ///< since the last flush()
    bool told = false;   ///< what stands at the begin has been sent
  };

  void add(State& state, const ChoiceEvent& event) const;
  void add_text(State& state, std::string_view text) const;
  void add_token(State& state, int32_t token) const;
  void add_logprobs(State& state, const engine::PositionLogprobs& position) const;
  void add_prompt_logprobs(State& state, std::span<const engine::PositionLogprobs> positions) const;
  void append_entry(std::string& list, std::optional<double> logprob, int32_t token) const;
  void append_alternatives(std::string& list, const engine::PositionLogprobs& position) const;
  std::string output_text(size_t choice) const;
  void flush_news();

  const std::shared_ptr<Exchange> exchange_;
  const GenerateRequest request_;
  const text::Tokenizer tokenizer_;
  const bool incremental_;
  bool has_logprobs_ = false;
  bool is_long_ = false;  ///< what flush() said the last time
  const std::chrono::steady_clock::time_point arrival_;
  std::vector<State> states_;
  std::string news_;  ///< events of an incremental stream that are to be sent
};

}  // namespace reprise::server
