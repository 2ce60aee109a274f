#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "ops/attribute.h"
#include "tensor/tensor.h"

namespace reprise::graph {

/// Reads the parts of a graph's text from left to right. Every fault is an Error of kCorruptData that begins with
/// "LINE:COLUMN: ". Blanks in front of a part are skipped, line ends are not: they end a statement.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  /// Takes the token if it comes next. Tokens of letters are words: see take_word().
  bool take(std::string_view token);
  void expect(std::string_view token);
  /// The next character behind blanks; 0 at the end.
  char peek();
  /// The next word (letters, digits, '_', '.') without taking it; "" where something else stands.
  std::string_view peek_word();
  /// The character behind the next word and blanks; 0 at the end.
  char peek_behind_word();
  bool take_word(std::string_view word);
  /// `what` completes "expected ".
  std::string_view word(std::string_view what);
  /// A value's name, without its '%'.
  std::string_view value_name();
  int64_t integer(int64_t min, int64_t max);
  /// In quotes, as quote() of text_writer.h writes it.
  std::string string();
  Dim dim();
  Shape shape();
  TensorMeta meta();
  ops::Attribute attribute(ops::AttributeKind kind);

  /// Takes blanks, comments and line ends in front of a statement.
  void skip_empty_lines();
  /// Takes the rest of a line that may hold a comment only, and returns the comment without '#' and outer blanks.
  std::string_view end_of_line();
  bool at_end();

  /// The place of the next part, for fail_at().
  size_t place();
  [[noreturn]] void fail(std::string_view message) { fail_at(place(), message); }
  [[noreturn]] void fail_at(size_t place, std::string_view message) const;
  /// The same fault as another error, with its remedy.
  [[noreturn]] void fail_at(size_t place, const Error& error) const;

 private:
  void skip_blanks();
  double floating();
  std::string position_text(size_t place) const;

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace reprise::graph
