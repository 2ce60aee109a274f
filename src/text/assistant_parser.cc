#include "text/assistant_parser.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace reprise::text {
namespace {

constexpr std::string_view kThinkBegin = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCallBegin = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kSpace = " \t\n\r";

/// Bytes at the end of the text that may be the beginning of the marker.
size_t begun_marker(std::string_view text, std::string_view marker) {
  for (size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (marker.starts_with(text.substr(text.size() - size))) return size;
  }
  return 0;
}

/// The text without white space at its end.
size_t trimmed_size(std::string_view text) {
  const size_t last = text.find_last_not_of(kSpace);
  return last == std::string_view::npos ? 0 : last + 1;
}

size_t space_at_begin(std::string_view text) { return std::min(text.find_first_not_of(kSpace), text.size()); }

}  // namespace

AssistantParser::AssistantParser(AssistantParserOptions options)
    : options_(options),
      state_(!options.reasoning            ? State::kContent
             : options.starts_in_reasoning ? State::kOpenReasoning
                                           : State::kStart) {}

std::vector<AssistantDelta> AssistantParser::push(std::string_view piece) {
  text_ += piece;
  return take(false);
}

std::vector<AssistantDelta> AssistantParser::finish() { return take(true); }

std::vector<AssistantDelta> AssistantParser::take(bool last) {
  std::vector<AssistantDelta> deltas;
  while (advance(last, deltas)) {
  }
  text_.erase(0, taken_);
  taken_ = 0;
  return deltas;
}

AssistantMessage AssistantParser::parse(std::string_view answer, AssistantParserOptions options) {
  AssistantParser parser(options);
  AssistantMessage message;
  for (const AssistantDelta& delta : parser.push(answer)) message.add(delta);
  for (const AssistantDelta& delta : parser.finish()) message.add(delta);
  return message;
}

bool AssistantParser::markers_are_special(const Tokenizer& tokenizer) {
  return std::ranges::any_of(std::array{kThinkBegin, kThinkEnd, kCallBegin, kCallEnd}, [&](std::string_view marker) {
    const std::optional<int32_t> id = tokenizer.token_to_id(marker);
    return id && tokenizer.is_special(*id);
  });
}

bool AssistantParser::advance(bool last, std::vector<AssistantDelta>& deltas) {
  switch (state_) {
    case State::kStart:
    case State::kOpenReasoning:
      return advance_start(last);
    case State::kReasoningStart:
      return advance_space(State::kReasoning);
    case State::kReasoning:
      return advance_reasoning(last, deltas);
    case State::kContentStart:
      return advance_space(State::kContent);
    case State::kContent:
      return advance_content(last, deltas);
    case State::kCall:
      return advance_call(last, deltas);
  }
  return false;
}

/// A `<think>` may come first, also where the prompt holds one already: models repeat it.
bool AssistantParser::advance_start(bool last) {
  const size_t begin = space_at_begin(rest());
  const std::string_view text = rest().substr(begin);
  if (text.starts_with(kThinkBegin)) {
    drop(begin + kThinkBegin.size());
    state_ = State::kReasoningStart;
    return true;
  }
  if (!last && kThinkBegin.starts_with(text)) return false;
  state_ = state_ == State::kOpenReasoning ? State::kReasoningStart : State::kContent;
  return true;
}

bool AssistantParser::advance_space(State next) {
  drop(space_at_begin(rest()));
  if (rest().empty()) return false;
  state_ = next;
  return true;
}

bool AssistantParser::advance_reasoning(bool last, std::vector<AssistantDelta>& deltas) {
  const size_t end = rest().find(kThinkEnd);
  const bool found = end != std::string_view::npos;
  const size_t held = found || last ? 0 : begun_marker(rest(), kThinkEnd);
  const size_t certain = found ? end : rest().size() - held;
  const size_t size = trimmed_size(rest().substr(0, certain));
  emit(AssistantDelta::Kind::kReasoning, size, deltas);
  if (!found) return false;
  drop(end - size + kThinkEnd.size());
  state_ = State::kContentStart;
  return true;
}

bool AssistantParser::advance_content(bool last, std::vector<AssistantDelta>& deltas) {
  const size_t begin = options_.tools ? rest().find(kCallBegin) : std::string_view::npos;
  if (begin == std::string_view::npos && (last || !options_.tools)) {
    emit(AssistantDelta::Kind::kContent, rest().size(), deltas);
    return false;
  }
  const bool found = begin != std::string_view::npos;
  const size_t certain = found ? begin : rest().size() - begun_marker(rest(), kCallBegin);
  const size_t size = trimmed_size(rest().substr(0, certain));
  emit(AssistantDelta::Kind::kContent, size, deltas);
  if (!found) return false;
  // The white space before it stays: it is content if this turns out to be no call.
  call_body_ = scanned_ = begin - size + kCallBegin.size();
  first_end_ = 0;
  in_string_ = broken_ = false;
  state_ = State::kCall;
  return true;
}

bool AssistantParser::advance_call(bool last, std::vector<AssistantDelta>& deltas) {
  while (scanned_ < rest().size()) {
    const std::string_view text = rest().substr(scanned_);
    if (text.starts_with(kCallEnd)) {
      if (end_call(scanned_, deltas)) return true;
      continue;
    }
    if (!last && kCallEnd.starts_with(text)) return false;
    if (!scan_json()) break;
    // An open string gave it a second chance, for nothing.
    if (broken_ && first_end_ != 0) {
      give_up_call(first_end_, deltas);
      return true;
    }
  }
  if (!last) return false;
  give_up_call(first_end_ != 0 ? first_end_ : rest().size(), deltas);
  return true;
}

bool AssistantParser::end_call(size_t begin, std::vector<AssistantDelta>& deltas) {
  const size_t end = begin + kCallEnd.size();
  if (first_end_ == 0) first_end_ = end;
  if (in_string_ && !broken_) {
    scanned_ = end;
    return false;
  }
  AssistantDelta delta{.kind = AssistantDelta::Kind::kToolCall};
  if (broken_ || !read_tool_call(rest().substr(call_body_, begin - call_body_), delta.call)) {
    give_up_call(first_end_, deltas);
    return true;
  }
  deltas.push_back(std::move(delta));
  drop(end);
  state_ = State::kContentStart;
  return true;
}

bool AssistantParser::scan_json() {
  const std::string_view text = rest().substr(scanned_);
  const auto character = static_cast<unsigned char>(text[0]);
  size_t size = 1;
  if (character == '"') {
    in_string_ = !in_string_;
  } else if (character == '\\' && in_string_) {
    if (text.size() == 1) return false;
    // No escape has a '<', which may begin the end of the call.
    broken_ = broken_ || text[1] == '<';
    if (text[1] != '<') size = 2;
  } else if (character == '\\' || (in_string_ && character < ' ')) {
    broken_ = true;
  }
  scanned_ += size;
  return true;
}

void AssistantParser::give_up_call(size_t end, std::vector<AssistantDelta>& deltas) {
  emit(AssistantDelta::Kind::kContent, end, deltas);
  state_ = State::kContent;
}

void AssistantParser::emit(AssistantDelta::Kind kind, size_t size, std::vector<AssistantDelta>& deltas) {
  if (size == 0) return;
  if (!deltas.empty() && deltas.back().kind == kind) {
    deltas.back().text += rest().substr(0, size);
  } else {
    deltas.push_back({.kind = kind, .text = std::string(rest().substr(0, size))});
  }
  drop(size);
}

}  // namespace reprise::text
