#include "engine/sequence.h"

#include <algorithm>
#include <utility>

namespace reprise::engine {

Sequence::Sequence(RequestId id, Request request, uint64_t seed, int32_t vocabulary,
                   const std::optional<text::Tokenizer>& tokenizer, std::span<const int32_t> end_tokens)
    : id_(id),
      request_(std::move(request)),
      tokens_(request_.prompt),
      ends_(request_.sampling.stop_token_ids),
      vocabulary_(vocabulary),
      read_end_(prompt_length()),
      next_scored_(request_.prompt_logprobs ? std::max(request_.prompt_logprobs_start, 1) : prompt_length()),
      stop_matcher_(request_.sampling.stop, request_.sampling.keep_stop) {
  if (!sampling().ignore_eos) ends_.insert(ends_.end(), end_tokens.begin(), end_tokens.end());
  if (next_scored_ < prompt_length()) {
    output_.prompt_logprobs.reserve(static_cast<size_t>(prompt_length() - next_scored_));
  }
  const auto max_new_tokens = static_cast<size_t>(sampling().max_new_tokens);
  tokens_.reserve(tokens_.size() + max_new_tokens);
  output_.token_ids.reserve(max_new_tokens);
  if (sampling().logprobs) output_.logprobs.reserve(max_new_tokens);
  output_.prompt_tokens = prompt_length();
  output_.seed = seed;
  if (!tokenizer) return;
  detokenizer_.emplace(*tokenizer, request_.skip_special_tokens);
  // The text may leave control tokens out, and one of them may be all of a stop string.
  for (const std::string& stop : sampling().stop) {
    const std::optional<int32_t> token = tokenizer->token_to_id(stop);
    if (!token || !tokenizer->is_special(*token)) continue;
    ends_.push_back(*token);
    spelled_stops_.emplace_back(*token, stop);
  }
}

std::span<const int32_t> Sequence::next_tokens(int32_t limit) const {
  const std::span<const int32_t> rest = std::span(tokens_).subspan(static_cast<size_t>(computed_));
  return rest.first(std::min(rest.size(), static_cast<size_t>(limit)));
}

void Sequence::begin() {
  // Not for those that wait: it takes memory for the whole vocabulary.
  if (sampling().has_penalties() && !history_) {
    history_.emplace(vocabulary_, request_.prompt, sampling().max_new_tokens);
  }
}

void Sequence::skip(int32_t count) {
  computed_ += count;
  REPRISE_CHECK(computed_ < read_end_);
  if (output_.preemptions == 0) output_.cached_tokens += count;
}

void Sequence::restart() {
  computed_ = 0;
  read_end_ = length();
  ++output_.preemptions;
}

bool Sequence::advance(int32_t count) {
  computed_ += count;
  REPRISE_CHECK(computed_ <= length());
  return computed_ == length();
}

void Sequence::append_prompt_logprobs(PositionLogprobs logprobs) {
  output_.prompt_logprobs.push_back(std::move(logprobs));
  ++next_scored_;
}

void Sequence::append(int32_t token, PositionLogprobs logprobs) {
  REPRISE_CHECK(!finished_);
  catch_up_text();
  tokens_.push_back(token);
  output_.token_ids.push_back(token);
  if (history_) history_->add(token);
  if (sampling().logprobs) output_.logprobs.push_back(std::move(logprobs));
  has_event_ = true;
  event_has_token_ = true;
  const bool is_end = ends_with(token);
  if (is_end) tell_end(token);
  const bool is_text = detokenizer_ && (!is_end || sampling().keep_stop);
  // What the text cannot end need not hold up the next step.
  if (is_text && sampling().stop.empty()) {
    without_text_ = token;
  } else if (is_text && emit(detokenizer_->push(token))) {
    finished_ = true;
    return;
  }
  if (is_end) return end(FinishReason::kStop);
  if (output_length() >= sampling().max_new_tokens) end(FinishReason::kLength);
}

void Sequence::catch_up_text() {
  if (without_text_) emit(detokenizer_->push(*std::exchange(without_text_, std::nullopt)));
}

bool Sequence::ends_with(int32_t token) const {
  return output_length() > sampling().min_new_tokens && std::find(ends_.begin(), ends_.end(), token) != ends_.end();
}

void Sequence::tell_end(int32_t token) {
  const auto spelled = std::find_if(spelled_stops_.begin(), spelled_stops_.end(),
                                    [token](const auto& stop) { return stop.first == token; });
  if (spelled == spelled_stops_.end()) {
    output_.stop_token = token;
  } else {
    output_.stop_string = spelled->second;
  }
}

bool Sequence::emit(std::string_view text) {
  if (output_length() <= sampling().min_new_tokens) {
    output_.text += text;
    return false;
  }
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
  catch_up_text();
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
  catch_up_text();
  TokenEvent event;
  event.request = id_;
  event.cached_tokens = output_.cached_tokens;
  if (event_has_token_) {
    event.token = output_.token_ids.back();
    if (sampling().logprobs) event.logprobs = &output_.logprobs.back();
  }
  event.text = std::string_view(output_.text).substr(event_text_begin_);
  if (!had_event_) event.prompt_logprobs = output_.prompt_logprobs;
  if (finished_) event.output = &output_;
  event_text_begin_ = output_.text.size();
  has_event_ = false;
  event_has_token_ = false;
  had_event_ = true;
  return event;
}

}  // namespace reprise::engine
