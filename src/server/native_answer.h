#pragma once

#include <chrono>
#include <memory>
#include <string>
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
  void begin() override;
  void on_event(ChoiceEvent& event) override;
  void on_complete() override;
  void on_failure(const Error& error) override;

 private:
  /// What an output has come to.
  struct State {
    size_t item = 0;
    std::string text;
    std::vector<int32_t> ids;
    std::vector<engine::PositionLogprobs> logprobs;
    std::vector<engine::PositionLogprobs> prompt_logprobs;
    int64_t completion_tokens = 0;
    std::unique_ptr<engine::RequestOutput> output;
    double seconds = 0;  // until it ended
  };

  Json output_json(const State& state) const;
  void add_logprobs(const State& state, Json& meta) const;
  Json logprob_list(const std::vector<engine::PositionLogprobs>& positions) const;
  Json top_list(const std::vector<engine::PositionLogprobs>& positions) const;
  Json entry(double logprob, int32_t token) const;

  const std::shared_ptr<Exchange> exchange_;
  const GenerateRequest request_;
  const text::Tokenizer tokenizer_;
  const bool incremental_;
  const std::chrono::steady_clock::time_point arrival_;
  std::vector<State> states_;
};

}  // namespace reprise::server
