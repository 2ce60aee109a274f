#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::text {

/// A stretch of a subject: a match, or what lies between two.
struct RegexPiece {
  size_t begin;
  size_t end;
  bool is_match;
};

/// What matching writes to, reusable for all expressions by one thread at a time. Backtracking lives in it, on the
/// heap: matching needs a constant amount of the thread's own stack.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

/// A compiled expression (PCRE2, just-in-time compiled where the processor allows). Immutable, shared by threads.
class Regex {
 public:
  /// Compiles an expression of tokenizer.json; see translate_regex for what is refused. `where` names it in errors.
  static Regex compile(std::string_view pattern, std::string_view where);
  /// An expression that matches exactly this text.
  static Regex literal(std::string_view text, std::string_view where);
  /// An expression already in PCRE2's syntax.
  static Regex pcre2(std::string_view pattern, std::string_view where);

  /// Cuts the subject (valid UTF-8) into matches and the stretches between them, in order, appended to `out`; an empty
  /// match yields an empty piece. Throws kResourceExhausted when the expression backtracks beyond all measure.
  void split(std::string_view subject, RegexScratch& scratch, std::vector<RegexPiece>& out) const;

 private:
  struct Code;
  Regex(std::string_view pattern, std::string_view where, unsigned options);

  std::string where_;
  std::shared_ptr<const Code> code_;
};

}  // namespace reprise::text
