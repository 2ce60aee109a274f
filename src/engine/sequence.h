#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/kv_pool.h"
#include "engine/request.h"
#include "engine/stop_matcher.h"
#include "engine/token_history.h"
#include "text/detokenizer.h"

namespace reprise::engine {

/// A request on its way: what it has read and produced, and where its KV entries are.
class Sequence {
 public:
  /// `tokenizer` may be absent: then there is no text. The request must be valid. `end_tokens` are the model's own.
  Sequence(RequestId id, Request request, uint64_t seed, int32_t vocabulary,
           const std::optional<text::Tokenizer>& tokenizer, std::span<const int32_t> end_tokens = {});

  RequestId id() const { return id_; }
  const Request& request() const { return request_; }
  const SamplingParameters& sampling() const { return request_.sampling; }
  uint64_t seed() const { return output_.seed; }
  const TokenHistory* history() const { return history_ ? &*history_ : nullptr; }

  RequestSize size() const {
    return {prompt_length(), sampling().max_new_tokens, request_.prompt_logprobs.has_value()};
  }
  int32_t prompt_length() const { return static_cast<int32_t>(request_.prompt.size()); }
  int32_t output_length() const { return static_cast<int32_t>(output_.token_ids.size()); }
  /// Prompt and output.
  int32_t length() const { return static_cast<int32_t>(tokens_.size()); }
  /// Tokens whose KV entries are written.
  int32_t computed() const { return computed_; }
  /// All of the prompt is read, and of the output what was there when the sequence was restarted.
  bool prompt_done() const { return computed_ >= read_end_; }
  /// Tokens that steps of many tokens have to read.
  int32_t unread() const { return std::max(read_end_ - computed_, 0); }
  std::span<const int32_t> tokens() const { return tokens_; }
  /// At most `limit` of the tokens that the next step reads.
  std::span<const int32_t> next_tokens(int32_t limit) const;
  /// Is given room to run, at first or again: makes what only running sequences need.
  void begin();
  /// The KV entries of the next `count` tokens were found, and need not be computed.
  void skip(int32_t count);
  /// Lost its KV entries: everything is to be computed again.
  void restart();
  /// A step has read so many tokens. True when all are read, so that the logits say what comes next.
  bool advance(int32_t count);

  /// Log probabilities of the prompt that a step with `count` next tokens would give and that are wanted: its logits
  /// are needed for every token.
  bool needs_all_logits(int32_t count) const {
    return next_scored_ < prompt_length() && next_scored_ <= computed_ + count;
  }
  /// The next token of the prompt whose log probability is wanted; prompt_length() when there is none.
  int32_t next_scored() const { return next_scored_; }
  /// Takes the log probabilities of that one.
  void append_prompt_logprobs(PositionLogprobs logprobs);
  /// Reads its prompt, and is done.
  bool is_only_read() const { return sampling().max_new_tokens == 0; }

  /// Tokens that must not be chosen now, because they would end the output too early.
  std::span<const int32_t> forbidden_tokens() const {
    if (output_length() >= sampling().min_new_tokens) return {};
    return ends_;
  }
  /// Takes the next token of the output, and ends the sequence when it is an end token or a stop token, completes a
  /// stop string or is the last one allowed. Where no stop string is to be found, its text is made when it is told.
  void append(int32_t token, PositionLogprobs logprobs = {});
  /// Ends the sequence without a further token; nothing happens when it has ended.
  void finish(FinishReason reason);
  void fail(Error error);
  bool finished() const { return finished_; }

  /// Something happened since take_event(): a token, or the end.
  bool has_event() const { return has_event_; }
  /// The event; it refers to this sequence and is valid until the next append(), finish() or fail().
  TokenEvent take_event();
  const RequestOutput& output() const { return output_; }

  /// The KV pages and the slot for per-sequence state (-1: none); owned by the scheduler.
  std::vector<int32_t> pages;
  int32_t sequence_slot = -1;
  /// A step that runs reads and writes its KV entries; the loop's.
  bool in_flight = false;
  /// How many of the pages the prefix cache knows, and the last one's place in it; the scheduler's.
  int32_t cached_pages = 0;
  PrefixCache::NodeId cache_node = PrefixCache::kRoot;

 private:
  bool ends_with(int32_t token) const;
  /// Makes the text of a token that has waited for it.
  void catch_up_text();
  void tell_end(int32_t token);
  /// Passes text to the stop matcher; true when a stop string is complete.
  bool emit(std::string_view text);
  void end(FinishReason reason);

  RequestId id_;
  Request request_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> ends_;                                   // tokens that end the output
  std::vector<std::pair<int32_t, std::string>> spelled_stops_;  // those of them that a stop string names
  int32_t vocabulary_;
  int32_t computed_ = 0;
  int32_t read_end_;
  int32_t next_scored_;
  std::optional<TokenHistory> history_;
  std::optional<text::Detokenizer> detokenizer_;
  StopMatcher stop_matcher_;
  std::optional<int32_t> without_text_;  ///< the last token, whose text is not made yet
  RequestOutput output_;
  bool finished_ = false;

  bool has_event_ = false;
  bool event_has_token_ = false;
  bool had_event_ = false;
  size_t event_text_begin_ = 0;  ///< in output_.text
};

}  // namespace reprise::engine
