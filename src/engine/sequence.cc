#include "engine/sequence.h"

#include <algorithm>

namespace reprise::engine {

Sequence::Sequence(RequestId id, Request request, uint64_t seed, int32_t vocabulary,
                   const std::optional<text::Tokenizer>& tokenizer)
    : id_(id), request_(std::move(request)), tokens_(request_.prompt), stop_matcher_(request_.sampling.stop) {
  const auto max_new_tokens = static_cast<size_t>(sampling().max_new_tokens);
  tokens_.reserve(tokens_.size() + max_new_tokens);
  output_.token_ids.reserve(max_new_tokens);
  if (sampling().logprobs) output_.logprobs.reserve(max_new_tokens);
  output_.prompt_tokens = prompt_length();
  output_.seed = seed;
  if (sampling().has_penalties()) history_.emplace(vocabulary, request_.prompt, sampling().max_new_tokens);
  if (tokenizer) detokenizer_.emplace(*tokenizer, request_.skip_special_tokens);
}

std::span<const int32_t> Sequence::next_tokens(int32_t limit) const {
  const std::span<const int32_t> rest = std::span(tokens_).subspan(static_cast<size_t>(computed_));
  return rest.first(std::min(rest.size(), static_cast<size_t>(limit)));
}

bool Sequence::advance(int32_t count) {
  computed_ += count;
  REPRISE_CHECK(computed_ <= length());
  return computed_ == length();
}

void Sequence::append(int32_t token, std::span<const int32_t> end_tokens, PositionLogprobs logprobs) {
  REPRISE_CHECK(!finished_);
  tokens_.push_back(token);
  output_.token_ids.push_back(token);
  if (history_) history_->add(token);
  if (sampling().logprobs) output_.logprobs.push_back(std::move(logprobs));
  has_event_ = true;
  event_has_token_ = true;
  if (ends_with(token, end_tokens)) return end(FinishReason::kStop);
  if (detokenizer_ && emit(detokenizer_->push(token))) {
    finished_ = true;
    return;
  }
  if (output_length() >= sampling().max_new_tokens) end(FinishReason::kLength);
}

bool Sequence::ends_with(int32_t token, std::span<const int32_t> end_tokens) const {
  const auto contains = [token](const auto& list) { return std::find(list.begin(), list.end(), token) != list.end(); };
  return (!sampling().ignore_eos && contains(end_tokens)) || contains(sampling().stop_token_ids);
}

bool Sequence::emit(std::string_view text) {
  const std::optional<size_t> stop = stop_matcher_.push(text, output_.text);
  if (!stop) return false;
  output_.finish = FinishReason::kStop;
  output_.stop_string = sampling().stop[*stop];
  return true;
}

void Sequence::end(FinishReason reason) {
  finished_ = true;
  has_event_ = true;
  output_.finish = reason;
  if (!detokenizer_) return;
  // The rest of the text may still complete a stop string, if that holds U+FFFD.
  if (!emit(detokenizer_->finish())) stop_matcher_.finish(output_.text);
}

void Sequence::finish(FinishReason reason) {
  if (!finished_) end(reason);
}

void Sequence::fail(Error error) {
  if (finished_) return;
  output_.error = std::move(error);
  end(FinishReason::kError);
  output_.finish = FinishReason::kError;
}

TokenEvent Sequence::take_event() {
  TokenEvent event;
  event.request = id_;
  if (event_has_token_) {
    event.token = output_.token_ids.back();
    if (sampling().logprobs) event.logprobs = &output_.logprobs.back();
  }
  event.text = std::string_view(output_.text).substr(event_text_begin_);
  if (finished_) event.output = &output_;
  event_text_begin_ = output_.text.size();
  has_event_ = false;
  event_has_token_ = false;
  return event;
}

}  // namespace reprise::engine
