#include "text/jinja_expression_parser.h"

#include <algorithm>

#include "text/jinja_filters.h"
#include "text/jinja_tests.h"

namespace reprise::text {

namespace {

// High enough for any template that a person or a program writes, low enough for the stack.
constexpr int kMaximumNesting = 100;
constexpr int kMaximumHeight = 250;

struct BinaryOperator {
  std::string_view text;
  JinjaOperator operation;
  int precedence;
};
constexpr BinaryOperator kBinaryOperators[] = {
    {"+", JinjaOperator::kAdd, 0},      {"-", JinjaOperator::kSubtract, 0}, {"~", JinjaOperator::kConcatenate, 1},
    {"*", JinjaOperator::kMultiply, 2}, {"/", JinjaOperator::kDivide, 2},   {"//", JinjaOperator::kFloorDivide, 2},
    {"%", JinjaOperator::kModulo, 2},   {"**", JinjaOperator::kPower, 3},
};
constexpr int kHighestPrecedence = 3;

constexpr std::pair<std::string_view, JinjaOperator> kComparisons[] = {
    {"==", JinjaOperator::kEqual},        {"!=", JinjaOperator::kNotEqual}, {"<=", JinjaOperator::kLessEqual},
    {">=", JinjaOperator::kGreaterEqual}, {"<", JinjaOperator::kLess},      {">", JinjaOperator::kGreater},
};

/// Names that go on with an expression where a test's argument could stand.
bool ends_test(std::string_view name) {
  return name == "else" || name == "or" || name == "and" || name == "is" || name == "if" || name == "in" ||
         name == "not";
}

}  // namespace

JinjaExpressionParser::Nesting::Nesting(JinjaExpressionParser& parser) : parser_(parser) {
  if (parser.nesting_ >= kMaximumNesting) {
    parser.raise(ErrorCode::kResourceExhausted, parser.current().position,
                 fmt::format("nested more than {} deep", kMaximumNesting));
  }
  ++parser.nesting_;
}

void JinjaExpressionParser::raise(ErrorCode code, const JinjaPosition& place, const std::string& message) const {
  throw Error(code, "{}:{}:{}: {}", name_, place.line, place.column, message);
}

void JinjaExpressionParser::unexpected(std::string_view expected) const {
  const JinjaToken& token = current();
  if (token.kind == JinjaToken::Kind::kEnd) fail(token.position, "the template ends, expected {}", expected);
  fail(token.position, "unexpected '{}', expected {}", token.text.substr(0, 40), expected);
}

bool JinjaExpressionParser::at_operator(std::string_view text) const {
  return current().kind == JinjaToken::Kind::kOperator && current().text == text;
}
bool JinjaExpressionParser::at_name(std::string_view text) const {
  return current().kind == JinjaToken::Kind::kName && current().text == text;
}
bool JinjaExpressionParser::accept_operator(std::string_view text) {
  const bool found = at_operator(text);
  if (found) next();
  return found;
}
bool JinjaExpressionParser::accept_name(std::string_view text) {
  const bool found = at_name(text);
  if (found) next();
  return found;
}
void JinjaExpressionParser::expect_operator(std::string_view text) {
  if (!accept_operator(text)) unexpected(fmt::format("'{}'", text));
}
void JinjaExpressionParser::expect(JinjaToken::Kind kind, std::string_view description) {
  if (current().kind != kind) unexpected(description);
  next();
}
std::string JinjaExpressionParser::expect_name(std::string_view description) {
  if (current().kind != JinjaToken::Kind::kName) unexpected(description);
  return next().text;
}

JinjaExpressionPointer JinjaExpressionParser::make(Kind kind, const JinjaPosition& place) const {
  auto node = std::make_unique<JinjaExpression>();
  node->kind = kind;
  node->position = place;
  return node;
}

JinjaExpressionPointer JinjaExpressionParser::make(Kind kind, const JinjaPosition& place, JinjaExpressionPointer first,
                                                   JinjaExpressionPointer second) const {
  JinjaExpressionPointer node = make(kind, place);
  adopt(*node, std::move(first));
  if (second) adopt(*node, std::move(second));
  return node;
}

void JinjaExpressionParser::adopt(JinjaExpression& node, JinjaExpressionPointer operand) const {
  if (operand) {
    node.height = std::max(node.height, operand->height + 1);
    if (node.height > kMaximumHeight) {
      raise(ErrorCode::kResourceExhausted, node.position,
            fmt::format("more than {} operations inside each other", kMaximumHeight));
    }
  }
  node.operands.push_back(std::move(operand));
}

JinjaExpressionPointer JinjaExpressionParser::parse_tuple(bool allow_conditional) {
  JinjaExpressionPointer first = parse_expression(allow_conditional);
  if (!at_operator(",")) return first;
  const JinjaPosition place = first->position;
  JinjaExpressionPointer tuple = make(Kind::kTuple, place, std::move(first));
  while (accept_operator(",")) {
    const JinjaToken::Kind kind = current().kind;
    if (kind == JinjaToken::Kind::kBlockEnd || kind == JinjaToken::Kind::kOutputEnd) break;
    adopt(*tuple, parse_expression(allow_conditional));
  }
  return tuple;
}

JinjaExpressionPointer JinjaExpressionParser::parse_expression(bool allow_conditional) {
  const Nesting nesting(*this);
  JinjaExpressionPointer node = parse_or();
  while (allow_conditional && at_name("if")) {
    const JinjaPosition place = next().position;
    JinjaExpressionPointer condition = parse_or();
    node = make(Kind::kConditional, place, std::move(condition), std::move(node));
    adopt(*node, accept_name("else") ? parse_expression() : nullptr);
  }
  return node;
}

JinjaExpressionPointer JinjaExpressionParser::parse_or() {
  JinjaExpressionPointer left = parse_and();
  while (at_name("or")) {
    const JinjaPosition place = next().position;
    left = make(Kind::kOr, place, std::move(left), parse_and());
  }
  return left;
}

JinjaExpressionPointer JinjaExpressionParser::parse_and() {
  JinjaExpressionPointer left = parse_not();
  while (at_name("and")) {
    const JinjaPosition place = next().position;
    left = make(Kind::kAnd, place, std::move(left), parse_not());
  }
  return left;
}

JinjaExpressionPointer JinjaExpressionParser::parse_not() {
  if (!at_name("not")) return parse_compare();
  const Nesting nesting(*this);
  const JinjaPosition place = next().position;
  JinjaExpressionPointer node = make(Kind::kUnary, place, parse_not());
  node->operations = {JinjaOperator::kNot};
  return node;
}

bool JinjaExpressionParser::accept_comparison(JinjaOperator& operation) {
  for (const auto& [text, candidate] : kComparisons) {
    if (accept_operator(text)) {
      operation = candidate;
      return true;
    }
  }
  if (at_name("not") && following().kind == JinjaToken::Kind::kName && following().text == "in") {
    next();
    next();
    operation = JinjaOperator::kNotIn;
    return true;
  }
  operation = JinjaOperator::kIn;
  return accept_name("in");
}

JinjaExpressionPointer JinjaExpressionParser::parse_compare() {
  JinjaExpressionPointer left = parse_binary(0);
  const JinjaPosition place = current().position;
  JinjaOperator operation;
  if (!accept_comparison(operation)) return left;
  JinjaExpressionPointer node = make(Kind::kCompare, place, std::move(left));
  do {
    node->operations.push_back(operation);
    adopt(*node, parse_binary(0));
  } while (accept_comparison(operation));
  return node;
}

JinjaExpressionPointer JinjaExpressionParser::parse_binary(int precedence) {
  if (precedence > kHighestPrecedence) return parse_unary(true);
  JinjaExpressionPointer left = parse_binary(precedence + 1);
  while (current().kind == JinjaToken::Kind::kOperator) {
    const auto* found = std::find_if(std::begin(kBinaryOperators), std::end(kBinaryOperators), [&](const auto& entry) {
      return entry.precedence == precedence && entry.text == current().text;
    });
    if (found == std::end(kBinaryOperators)) break;
    const JinjaPosition place = next().position;
    left = make(Kind::kBinary, place, std::move(left), parse_binary(precedence + 1));
    left->operations = {found->operation};
  }
  return left;
}

JinjaExpressionPointer JinjaExpressionParser::parse_unary(bool with_filters) {
  JinjaExpressionPointer node;
  if (at_operator("-") || at_operator("+")) {
    const Nesting nesting(*this);
    const JinjaToken& sign = next();
    const JinjaOperator operation = sign.text == "-" ? JinjaOperator::kNegate : JinjaOperator::kPlus;
    const JinjaPosition place = sign.position;
    node = make(Kind::kUnary, place, parse_unary(false));
    node->operations = {operation};
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters(std::move(node)) : std::move(node);
}

JinjaExpressionPointer JinjaExpressionParser::parse_filters(JinjaExpressionPointer input) {
  bool first = !input;
  while (true) {
    if (first || at_operator("|")) {
      if (!first) next();
      const JinjaPosition place = current().position;
      std::string filter = expect_name("the name of a filter");
      if (!is_jinja_filter(filter)) refuse(place, "the filter '{}' is not supported", filter);
      JinjaExpressionPointer node = make(Kind::kFilter, place);
      node->name = std::move(filter);
      adopt(*node, std::move(input));
      if (at_operator("(")) parse_arguments(*node);
      check_literal_names(*node);
      input = std::move(node);
      first = false;
    } else if (at_name("is")) {
      input = parse_test(std::move(input));
    } else if (at_operator("(")) {
      input = parse_call(std::move(input));
    } else {
      return input;
    }
  }
}

void JinjaExpressionParser::check_literal_names(const JinjaExpression& filter) const {
  const bool maps = filter.name == "map";
  const bool selects = filter.name == "select" || filter.name == "reject";
  const bool by_attribute = filter.name == "selectattr" || filter.name == "rejectattr";
  const size_t index = by_attribute ? 2 : 1;
  if ((!maps && !selects && !by_attribute) || filter.operands.size() <= index) return;
  const JinjaExpression& argument = *filter.operands[index];
  const MarkedText* text = argument.kind == Kind::kLiteral ? argument.literal.text() : nullptr;
  if (!text) return;
  if (maps && !is_jinja_filter(text->bytes())) {
    refuse(argument.position, "the filter '{}' is not supported", text->bytes());
  }
  if (!maps && !find_jinja_test(text->bytes())) {
    refuse(argument.position, "the test '{}' is not supported", text->bytes());
  }
}

JinjaExpressionPointer JinjaExpressionParser::parse_test(JinjaExpressionPointer input) {
  const JinjaPosition place = next().position;
  const bool negated = accept_name("not");
  const JinjaPosition name_place = current().position;
  std::string test = expect_name("the name of a test");
  if (!find_jinja_test(test)) refuse(name_place, "the test '{}' is not supported", test);
  JinjaExpressionPointer node = make(Kind::kTest, place, std::move(input));
  node->name = std::move(test);
  const JinjaToken& token = current();
  const bool opens = at_operator("[") || at_operator("{");
  const bool literal = token.kind == JinjaToken::Kind::kString || token.kind == JinjaToken::Kind::kInteger ||
                       token.kind == JinjaToken::Kind::kFloat;
  if (at_operator("(")) {
    parse_arguments(*node);
  } else if (opens || literal || (token.kind == JinjaToken::Kind::kName && !ends_test(token.text))) {
    adopt(*node, parse_postfix(parse_primary()));
  }
  if (!negated) return node;
  node = make(Kind::kUnary, place, std::move(node));
  node->operations = {JinjaOperator::kNot};
  return node;
}

JinjaExpressionPointer JinjaExpressionParser::parse_postfix(JinjaExpressionPointer node) {
  while (true) {
    if (at_operator(".")) {
      node = parse_attribute(std::move(node));
    } else if (at_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (at_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

JinjaExpressionPointer JinjaExpressionParser::parse_attribute(JinjaExpressionPointer node) {
  next();
  const JinjaToken& token = current();
  if (token.kind == JinjaToken::Kind::kInteger) {
    JinjaExpressionPointer index = make(Kind::kLiteral, token.position);
    index->literal = JinjaValue(token.integer);
    next();
    return make(Kind::kItem, token.position, std::move(node), std::move(index));
  }
  const JinjaPosition place = token.position;
  std::string attribute = expect_name("the name of an attribute");
  node = make(Kind::kAttribute, place, std::move(node));
  node->name = std::move(attribute);
  return node;
}

JinjaExpressionPointer JinjaExpressionParser::parse_subscript(JinjaExpressionPointer node) {
  const JinjaPosition place = next().position;
  JinjaExpressionPointer parts[3];
  int colons = 0;
  while (!at_operator("]")) {
    if (accept_operator(":")) {
      if (++colons > 2) fail(place, "a slice has at most three parts");
    } else if (at_operator(",")) {
      refuse(current().position, "an index of several parts is not supported");
    } else if (parts[colons]) {
      unexpected("']'");
    } else {
      parts[colons] = parse_expression();
    }
  }
  next();
  if (colons == 0) {
    if (!parts[0]) fail(place, "an index is missing");
    return make(Kind::kItem, place, std::move(node), std::move(parts[0]));
  }
  node = make(Kind::kSlice, place, std::move(node));
  for (JinjaExpressionPointer& part : parts) adopt(*node, std::move(part));
  return node;
}

JinjaExpressionPointer JinjaExpressionParser::parse_call(JinjaExpressionPointer node) {
  const JinjaExpression& callee = *node;
  if (callee.kind == Kind::kName || callee.kind == Kind::kAttribute) {
    calls_.push_back({callee.name, callee.position, callee.kind == Kind::kAttribute});
  }
  node = make(Kind::kCall, callee.position, std::move(node));
  parse_arguments(*node);
  return node;
}

void JinjaExpressionParser::parse_arguments(JinjaExpression& node) {
  expect_operator("(");
  while (!at_operator(")")) {
    if (at_operator("*") || at_operator("**")) {
      refuse(current().position, "unpacking arguments with '{}' is not supported", current().text);
    }
    const bool keyword = current().kind == JinjaToken::Kind::kName && following().kind == JinjaToken::Kind::kOperator &&
                         following().text == "=";
    if (keyword) {
      std::string keyword_name = next().text;
      next();
      keyword_names_.insert(keyword_name);
      JinjaExpressionPointer value = parse_expression();
      node.height = std::max(node.height, value->height + 1);
      node.keywords.emplace_back(std::move(keyword_name), std::move(value));
    } else {
      if (!node.keywords.empty()) fail(current().position, "a positional argument follows a named one");
      adopt(node, parse_expression());
    }
    if (!at_operator(")")) expect_operator(",");
  }
  next();
}

void JinjaExpressionParser::parse_elements(JinjaExpression& node, std::string_view close) {
  while (!at_operator(close)) {
    adopt(node, parse_expression());
    if (!at_operator(close)) expect_operator(",");
  }
  next();
}

JinjaExpressionPointer JinjaExpressionParser::parse_parenthesis() {
  const JinjaPosition place = next().position;
  if (accept_operator(")")) return make(Kind::kTuple, place);
  JinjaExpressionPointer node = parse_expression();
  if (accept_operator(")")) return node;
  expect_operator(",");
  node = make(Kind::kTuple, place, std::move(node));
  parse_elements(*node, ")");
  return node;
}

JinjaExpressionPointer JinjaExpressionParser::parse_mapping() {
  JinjaExpressionPointer node = make(Kind::kMapping, next().position);
  while (!at_operator("}")) {
    adopt(*node, parse_expression());
    expect_operator(":");
    adopt(*node, parse_expression());
    if (!at_operator("}")) expect_operator(",");
  }
  next();
  return node;
}

JinjaExpressionPointer JinjaExpressionParser::parse_name() {
  const JinjaToken& token = next();
  JinjaExpressionPointer node = make(Kind::kLiteral, token.position);
  if (token.text == "true" || token.text == "True") {
    node->literal = JinjaValue(true);
  } else if (token.text == "false" || token.text == "False") {
    node->literal = JinjaValue(false);
  } else if (token.text == "none" || token.text == "None") {
    node->literal = JinjaValue::none();
  } else {
    node->kind = Kind::kName;
    node->name = token.text;
    used_names_.insert(token.text);
  }
  return node;
}

JinjaExpressionPointer JinjaExpressionParser::parse_primary() {
  const JinjaToken& token = current();
  switch (token.kind) {
    case JinjaToken::Kind::kName:
      return parse_name();
    case JinjaToken::Kind::kString: {
      JinjaExpressionPointer node = make(Kind::kLiteral, token.position);
      std::string text;
      while (current().kind == JinjaToken::Kind::kString) text += next().text;
      node->literal = JinjaValue(std::move(text), Origin::kTemplate);
      return node;
    }
    case JinjaToken::Kind::kInteger:
    case JinjaToken::Kind::kFloat: {
      JinjaExpressionPointer node = make(Kind::kLiteral, token.position);
      node->literal = token.kind == JinjaToken::Kind::kFloat ? JinjaValue(token.number) : JinjaValue(token.integer);
      next();
      return node;
    }
    default:
      break;
  }
  if (at_operator("(")) return parse_parenthesis();
  if (at_operator("{")) return parse_mapping();
  if (!at_operator("[")) unexpected("an expression");
  JinjaExpressionPointer node = make(Kind::kList, next().position);
  parse_elements(*node, "]");
  return node;
}

}  // namespace reprise::text
