#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace reprise::text {

/// Reads expressions from a template's tokens: the part of the parser that knows nothing of statements.
class JinjaExpressionParser {
 public:
  JinjaExpressionParser(std::string_view source, std::string_view name)
      : name_(name), tokens_(lex_jinja(source, name)) {}

 protected:
  using Kind = JinjaExpression::Kind;

  /// An expression; with commas, a tuple.
  JinjaExpressionPointer parse_tuple(bool allow_conditional);
  JinjaExpressionPointer parse_expression(bool allow_conditional = true);
  /// `|name(arguments)|...` of `input`, which may be null.
  JinjaExpressionPointer parse_filters(JinjaExpressionPointer input);
  JinjaExpressionPointer parse_postfix(JinjaExpressionPointer node);
  JinjaExpressionPointer parse_primary();

  const JinjaToken& current() const { return tokens_[at_]; }
  const JinjaToken& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  /// The current token, gone past (the end stays).
  const JinjaToken& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool at_operator(std::string_view text) const;
  bool at_name(std::string_view text) const;
  bool accept_operator(std::string_view text);
  bool accept_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect(JinjaToken::Kind kind, std::string_view description);
  std::string expect_name(std::string_view description);

  template <typename... Args>
  [[noreturn]] void fail(const JinjaPosition& place, fmt::format_string<Args...> format, Args&&... args) const {
    raise(ErrorCode::kCorruptData, place, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  [[noreturn]] void refuse(const JinjaPosition& place, fmt::format_string<Args...> format, Args&&... args) const {
    raise(ErrorCode::kUnsupported, place, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void raise(ErrorCode code, const JinjaPosition& place, const std::string& message) const;
  [[noreturn]] void unexpected(std::string_view expected) const;

  /// Counts a level of brackets or blocks while it lives.
  class Nesting {
   public:
    explicit Nesting(JinjaExpressionParser& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;

   private:
    JinjaExpressionParser& parser_;
  };

  /// A called name or method, to be checked when all that the template defines is known.
  struct Call {
    std::string name;
    JinjaPosition position;
    bool method;
  };

  std::string name_;
  std::vector<JinjaToken> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  std::vector<Call> calls_;
  std::set<std::string, std::less<>> used_names_;     // since the macro began
  std::set<std::string, std::less<>> keyword_names_;  // of all calls: what a namespace may hold

 private:
  JinjaExpressionPointer make(Kind kind, const JinjaPosition& place) const;
  JinjaExpressionPointer make(Kind kind, const JinjaPosition& place, JinjaExpressionPointer first,
                              JinjaExpressionPointer second = nullptr) const;
  /// Takes the operand in; refuses expressions that are too high.
  void adopt(JinjaExpression& node, JinjaExpressionPointer operand) const;

  JinjaExpressionPointer parse_or();
  JinjaExpressionPointer parse_and();
  JinjaExpressionPointer parse_not();
  JinjaExpressionPointer parse_compare();
  bool accept_comparison(JinjaOperator& operation);
  JinjaExpressionPointer parse_binary(int precedence);
  JinjaExpressionPointer parse_unary(bool with_filters);
  JinjaExpressionPointer parse_test(JinjaExpressionPointer input);
  JinjaExpressionPointer parse_attribute(JinjaExpressionPointer node);
  JinjaExpressionPointer parse_subscript(JinjaExpressionPointer node);
  JinjaExpressionPointer parse_call(JinjaExpressionPointer node);
  void parse_arguments(JinjaExpression& node);
  void parse_elements(JinjaExpression& node, std::string_view close);
  JinjaExpressionPointer parse_parenthesis();
  JinjaExpressionPointer parse_mapping();
  JinjaExpressionPointer parse_name();
  /// Checks a filter or test that is named by a literal argument, as in map('upper').
  void check_literal_names(const JinjaExpression& filter) const;
};

}  // namespace reprise::text
