#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "server/generation.h"
#include "server/json.h"
#include "server/request_fields.h"

namespace reprise::server {

/// How an answer of OpenAI's form is given.
struct OpenAiAnswerOptions {
  std::string id;
  std::string object;  ///< "text_completion", "chat.completion"
  std::string chunk_object;
  std::string model;
  int64_t created = 0;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  int32_t choices = 1;  ///< of each prompt
  bool heavy = false;   ///< each token comes with much else
};

/// Reads `stream` and `stream_options`.
void read_stream_fields(RequestFields& fields, OpenAiAnswerOptions& options);

/// "stop", "length" or "abort".
std::string_view finish_text(const engine::RequestOutput& output);
/// What ended an output: the stop string, the token, or null.
Json matched_stop(const engine::RequestOutput& output);

/// What answers to completions and to chats have in common: the frame around choices, usage, the end of the stream.
class OpenAiAnswer : public AnswerWriter {
 public:
  /// `prompt_tokens`: of all prompts together, each counted once.
  OpenAiAnswer(std::shared_ptr<Exchange> exchange, OpenAiAnswerOptions options, size_t choices, int64_t prompt_tokens);

  bool wants_tokens() const override { return options_.stream; }
  bool is_heavy() const override { return options_.heavy; }
  void begin() override;
  void on_event(ChoiceEvent& event) override;
  void flush() override;
  void on_complete() override;
  void on_failure(const Error& error) override;

 protected:
  /// Something is known of a choice, of whose tokens none is counted yet: writes what stands in front of its stream.
  virtual void begin_choice(size_t /*choice*/) {}
  /// Writes the chunks of an event, each by add_chunk().
  virtual void stream_event(const ChoiceEvent& event) = 0;
  /// A finished choice of an answer that is no stream.
  virtual Json choice_json(size_t choice, const engine::RequestOutput& output) = 0;

  /// `body`: the members of a choice behind its index, such as `"text":"a","finish_reason":null`.
  void add_chunk(size_t choice, std::string_view body);
  const OpenAiAnswerOptions& options() const { return options_; }

 private:
  void append_usage(std::string& out) const;

  const std::shared_ptr<Exchange> exchange_;
  const OpenAiAnswerOptions options_;
  std::string frame_;   // of chunks, up to the choices
  std::string chunks_;  // to be sent
  std::vector<std::unique_ptr<engine::RequestOutput>> outputs_;
  std::vector<bool> begun_;  // choices that something was heard of
  const int64_t prompt_tokens_;
  // Counted as they come, for usage in the middle of a stream.
  int64_t cached_tokens_ = 0;
  int64_t completion_tokens_ = 0;
};

}  // namespace reprise::server
