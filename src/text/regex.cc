#define PCRE2_CODE_UNIT_WIDTH 8

#include "text/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/log.h"
#include "text/regex_dialect.h"
#include "text/utf8.h"

namespace reprise::text {
namespace {

// The just-in-time code keeps its backtracking here. Runs of one character class need almost none of it.
constexpr size_t kStackStart = 32 << 10;
constexpr size_t kStackLimit = 8 << 20;
constexpr uint32_t kMatchLimit = 10'000'000;

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0) return "error " + std::to_string(code);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct RegexScratch::State {
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;

  ~State() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {
  state_->match = pcre2_match_data_create(1, nullptr);
  state_->context = pcre2_match_context_create(nullptr);
  if (!state_->match || !state_->context) throw std::bad_alloc();
  pcre2_set_match_limit(state_->context, kMatchLimit);
  // Null where this build of PCRE2 has no just-in-time compiler.
  state_->stack = pcre2_jit_stack_create(kStackStart, kStackLimit, nullptr);
  if (state_->stack) pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
}

RegexScratch::~RegexScratch() = default;

struct Regex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern, std::string_view where, unsigned options) : where_(where) {
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  // Deeper nesting than any published expression; bounds the compiler's recursion.
  pcre2_set_parens_nest_limit(context.get(), 100);

  auto code = std::make_shared<Code>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options | PCRE2_UTF, &error,
                             &offset, context.get());
  if (!code->code) {
    throw Error(ErrorCode::kUnsupported, "{}: regular expression '{}' does not compile: {} at offset {}", where,
                pattern, pcre2_message(error), offset);
  }
  if (const int result = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE); result != 0) {
    log_debug("{}: interpreted, because just-in-time compilation is unavailable: {}", where, pcre2_message(result));
  }
  code_ = std::move(code);
}

Regex Regex::compile(std::string_view pattern, std::string_view where) {
  return pcre2(translate_regex(pattern, where), where);
}

Regex Regex::literal(std::string_view text, std::string_view where) { return Regex(text, where, PCRE2_LITERAL); }

Regex Regex::pcre2(std::string_view pattern, std::string_view where) {
  // Ruby's ^ and $ always mean lines.
  return Regex(pattern, where, PCRE2_UCP | PCRE2_MULTILINE);
}

void Regex::split(std::string_view subject, RegexScratch& scratch, std::vector<RegexPiece>& out) const {
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(subject.data());
  const RegexScratch::State& state = *scratch.state_;
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(state.match);
  size_t search = 0;    // where the next match may begin
  size_t previous = 0;  // where the last match ended
  bool matched_before = false;
  while (search <= subject.size()) {
    const int result =
        pcre2_match(code_->code, bytes, subject.size(), search, PCRE2_NO_UTF_CHECK, state.match, state.context);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      throw Error(ErrorCode::kResourceExhausted, "{}: matching a text of {} bytes at byte {}: {}", where_,
                  subject.size(), search, pcre2_message(result));
    }
    const size_t begin = range[0];
    const size_t end = range[1];
    const bool empty = begin == end;
    // After an empty match the search goes on one character further; one right behind a match does not count.
    search = empty ? end + (end < subject.size() ? read_utf8(subject, end).length : 1) : end;
    if (empty && matched_before && begin == previous) continue;
    if (previous != begin) out.push_back({previous, begin, false});
    out.push_back({begin, end, true});
    previous = end;
    matched_before = true;
  }
  if (previous != subject.size()) out.push_back({previous, subject.size(), false});
}

}  // namespace reprise::text
