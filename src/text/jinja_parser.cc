#include "text/jinja_parser.h"

#include <algorithm>
#include <functional>
#include <initializer_list>

#include "text/jinja_expression_parser.h"
#include "text/jinja_functions.h"
#include "text/jinja_methods.h"

namespace reprise::text {

namespace {

/// Larger than any published template by two orders of magnitude.
constexpr size_t kMaximumSource = size_t{4} << 20;

class JinjaParser : public JinjaExpressionParser {
 public:
  using JinjaExpressionParser::JinjaExpressionParser;

  std::shared_ptr<const JinjaProgram> parse() {
    auto program = std::make_shared<JinjaProgram>();
    program->name = name_;
    program->body = parse_block({});
    check_calls();
    program->names = used_names_;
    return program;
  }

 private:
  using Words = std::vector<std::string_view>;

  /// Statements up to a tag that begins with one of `ends`, whose begin and word are gone past; `ended_by_` is that
  /// word.
  JinjaBlock parse_block(const Words& ends) {
    const Nesting nesting(*this);
    JinjaBlock block;
    while (true) {
      const JinjaToken& token = next();
      switch (token.kind) {
        case JinjaToken::Kind::kText:
          block.push_back(make_statement(JinjaStatement::Kind::kText, token.position));
          block.back().text = token.text;
          break;
        case JinjaToken::Kind::kOutputBegin:
          block.push_back(make_statement(JinjaStatement::Kind::kOutput, token.position));
          block.back().expressions.push_back(parse_tuple(true));
          expect(JinjaToken::Kind::kOutputEnd, "'}}'");
          break;
        case JinjaToken::Kind::kBlockBegin: {
          const JinjaPosition place = current().position;
          const std::string word = expect_name("the name of a tag");
          if (std::find(ends.begin(), ends.end(), word) != ends.end()) {
            ended_by_ = word;
            return block;
          }
          block.push_back(parse_statement(word, place));
          break;
        }
        default:
          if (ends.empty()) return block;
          fail(token.position, "the template ends, expected '{}'", ends.back());
      }
    }
  }

  static JinjaStatement make_statement(JinjaStatement::Kind kind, const JinjaPosition& place) {
    JinjaStatement statement;
    statement.kind = kind;
    statement.position = place;
    return statement;
  }

  void expect_block_end() { expect(JinjaToken::Kind::kBlockEnd, "'%}'"); }
  /// The rest of the tag, the body, and the tag that ends it.
  JinjaBlock parse_body(std::string_view end) {
    expect_block_end();
    JinjaBlock body = parse_block({end});
    if (end == "endmacro" || end == "endcall") accept_name(current().text);  // the macro's name may be repeated
    expect_block_end();
    return body;
  }

  JinjaStatement parse_statement(const std::string& word, const JinjaPosition& place) {
    using Parse = JinjaStatement (JinjaParser::*)(const JinjaPosition&);
    static constexpr std::pair<std::string_view, Parse> kStatements[] = {
        {"if", &JinjaParser::parse_if},           {"for", &JinjaParser::parse_for},
        {"set", &JinjaParser::parse_set},         {"macro", &JinjaParser::parse_macro},
        {"call", &JinjaParser::parse_call_block}, {"filter", &JinjaParser::parse_filter_block},
        {"with", &JinjaParser::parse_with},       {"generation", &JinjaParser::parse_generation},
        {"break", &JinjaParser::parse_break},     {"continue", &JinjaParser::parse_continue},
    };
    for (const auto& [name, parse] : kStatements) {
      if (name == word) return (this->*parse)(place);
    }
    static constexpr std::string_view kInner[] = {"elif",     "else",    "endif",     "endfor",        "endset",
                                                  "endmacro", "endcall", "endfilter", "endgeneration", "endwith"};
    if (std::find(std::begin(kInner), std::end(kInner), word) != std::end(kInner)) {
      fail(place, "'{}' without the tag that it belongs to", word);
    }
    refuse(place, "the tag '{}' is not supported", word);
  }

  JinjaStatement parse_if(const JinjaPosition& place) {
    JinjaStatement statement = make_statement(JinjaStatement::Kind::kIf, place);
    do {
      statement.expressions.push_back(parse_tuple(false));
      expect_block_end();
      statement.bodies.push_back(parse_block({"elif", "else", "endif"}));
    } while (ended_by_ == "elif");
    if (ended_by_ == "else") {
      expect_block_end();
      statement.bodies.push_back(parse_block({"endif"}));
    }
    expect_block_end();
    return statement;
  }

  JinjaStatement parse_for(const JinjaPosition& place) {
    JinjaStatement statement = make_statement(JinjaStatement::Kind::kFor, place);
    statement.targets.push_back(parse_target(false));
    if (!accept_name("in")) unexpected("'in'");
    statement.expressions.push_back(parse_tuple(false));
    statement.expressions.push_back(accept_name("if") ? parse_expression() : nullptr);
    if (at_name("recursive")) refuse(current().position, "'recursive' loops are not supported");
    expect_block_end();
    ++loops_;
    statement.bodies.push_back(parse_block({"else", "endfor"}));
    --loops_;
    if (ended_by_ == "else") {
      expect_block_end();
      statement.bodies.push_back(parse_block({"endfor"}));
    }
    expect_block_end();
    return statement;
  }

  JinjaStatement parse_set(const JinjaPosition& place) {
    JinjaStatement statement = make_statement(JinjaStatement::Kind::kSet, place);
    statement.targets.push_back(parse_target(true));
    if (accept_operator("=")) {
      statement.expressions.push_back(parse_tuple(true));
      expect_block_end();
      return statement;
    }
    statement.kind = JinjaStatement::Kind::kSetBlock;
    statement.expressions.push_back(accept_operator("|") ? parse_filters(nullptr) : nullptr);
    statement.bodies.push_back(parse_loopless_body("endset"));
    return statement;
  }

  /// Names a macro's body uses, apart from those around it.
  struct MacroNames {
    explicit MacroNames(JinjaParser& owner) : parser(owner) {
      outer.swap(parser.used_names_);
      std::swap(loops, parser.loops_);
    }
    ~MacroNames() {
      outer.merge(parser.used_names_);
      outer.swap(parser.used_names_);
      parser.loops_ = loops;
    }
    JinjaParser& parser;
    std::set<std::string, std::less<>> outer;
    int loops = 0;
  };

  void parse_macro_body(JinjaStatement& statement, std::string_view end) {
    statement.bodies.push_back(parse_body(end));
    statement.signature.takes_varargs = used_names_.contains("varargs");
    statement.signature.takes_kwargs = used_names_.contains("kwargs");
    statement.signature.takes_caller = used_names_.contains("caller");
  }

  JinjaStatement parse_macro(const JinjaPosition& place) {
    JinjaStatement statement = make_statement(JinjaStatement::Kind::kMacro, place);
    statement.text = expect_name("the macro's name");
    defined_.insert(statement.text);
    const MacroNames names(*this);
    parse_signature(statement.signature);
    parse_macro_body(statement, "endmacro");
    return statement;
  }

  JinjaStatement parse_call_block(const JinjaPosition& place) {
    JinjaStatement statement = make_statement(JinjaStatement::Kind::kCallBlock, place);
    {
      const MacroNames names(*this);
      if (at_operator("(")) parse_signature(statement.signature);
    }
    const JinjaPosition call_place = current().position;
    statement.expressions.push_back(parse_expression());
    if (statement.expressions[0]->kind != Kind::kCall) fail(call_place, "'call' needs the call of a macro");
    const MacroNames names(*this);
    parse_macro_body(statement, "endcall");
    return statement;
  }

  void parse_signature(JinjaSignature& signature) {
    expect_operator("(");
    while (!at_operator(")")) {
      const JinjaPosition place = current().position;
      signature.parameters.push_back(expect_name("the name of a parameter"));
      defined_.insert(signature.parameters.back());
      if (accept_operator("=")) {
        signature.defaults.push_back(parse_expression());
      } else if (!signature.defaults.empty()) {
        fail(place, "a parameter without default follows one with a default");
      }
      if (!at_operator(")")) expect_operator(",");
    }
    next();
  }

  /// A body from which neither break nor continue can lead out.
  JinjaBlock parse_loopless_body(std::string_view end) {
    const int loops = loops_;
    loops_ = 0;
    JinjaBlock body = parse_body(end);
    loops_ = loops;
    return body;
  }

  JinjaStatement parse_filter_block(const JinjaPosition& place) {
    JinjaStatement statement = make_statement(JinjaStatement::Kind::kFilterBlock, place);
    statement.expressions.push_back(parse_filters(nullptr));
    statement.bodies.push_back(parse_loopless_body("endfilter"));
    return statement;
  }

  JinjaStatement parse_with(const JinjaPosition& place) {
    JinjaStatement statement = make_statement(JinjaStatement::Kind::kWith, place);
    while (current().kind != JinjaToken::Kind::kBlockEnd) {
      statement.targets.push_back(parse_target(false));
      expect_operator("=");
      statement.expressions.push_back(parse_expression());
      if (current().kind != JinjaToken::Kind::kBlockEnd) expect_operator(",");
    }
    statement.bodies.push_back(parse_body("endwith"));
    return statement;
  }

  JinjaStatement parse_generation(const JinjaPosition& place) {
    JinjaStatement statement = make_statement(JinjaStatement::Kind::kScope, place);
    statement.bodies.push_back(parse_loopless_body("endgeneration"));
    return statement;
  }

  JinjaStatement parse_break(const JinjaPosition& place) { return parse_jump(JinjaStatement::Kind::kBreak, place); }
  JinjaStatement parse_continue(const JinjaPosition& place) {
    return parse_jump(JinjaStatement::Kind::kContinue, place);
  }
  JinjaStatement parse_jump(JinjaStatement::Kind kind, const JinjaPosition& place) {
    if (loops_ == 0) fail(place, "'break' and 'continue' belong into a loop");
    expect_block_end();
    return make_statement(kind, place);
  }

  /// `name`, `name.attribute`, or several with commas, in parentheses or not.
  JinjaTarget parse_target(bool allow_attribute) {
    JinjaTarget first = parse_single_target(allow_attribute);
    if (!at_operator(",")) return first;
    JinjaTarget target;
    target.elements.push_back(std::move(first));
    while (accept_operator(",")) {
      if (current().kind == JinjaToken::Kind::kName ? at_name("in") : !at_operator("(")) break;
      target.elements.push_back(parse_single_target(allow_attribute));
    }
    return target;
  }
  JinjaTarget parse_single_target(bool allow_attribute) {
    if (accept_operator("(")) {
      const Nesting nesting(*this);
      JinjaTarget target = parse_target(allow_attribute);
      expect_operator(")");
      return target;
    }
    JinjaTarget target;
    const JinjaPosition place = current().position;
    target.name = expect_name("a name to assign to");
    static constexpr std::string_view kConstants[] = {"true", "True", "false", "False", "none", "None"};
    if (std::find(std::begin(kConstants), std::end(kConstants), target.name) != std::end(kConstants)) {
      fail(place, "'{}' cannot be assigned to", target.name);
    }
    if (allow_attribute && accept_operator(".")) {
      target.attribute = expect_name("the name of an attribute");
      keyword_names_.insert(target.attribute);
    } else {
      defined_.insert(target.name);
    }
    return target;
  }

  /// Input is data and cannot be called: what is called must be built in or made by the template.
  void check_calls() const {
    for (const Call& call : calls_) {
      if (call.method) {
        if (is_jinja_method(call.name) || keyword_names_.contains(call.name)) continue;
        if (const std::string_view reason = refused_jinja_method(call.name); !reason.empty()) {
          refuse(call.position, "the method '{}' is not supported: {}", call.name, reason);
        }
        refuse(call.position, "the method '{}' is not supported", call.name);
      }
      if (call.name == "loop") refuse(call.position, "'recursive' loops are not supported");
      if (is_jinja_function(call.name) || defined_.contains(call.name) || call.name == "caller") continue;
      refuse(call.position, "the function '{}' is not supported", call.name);
    }
  }

  std::string ended_by_;
  int loops_ = 0;
  std::set<std::string, std::less<>> defined_;
};

}  // namespace

std::shared_ptr<const JinjaProgram> parse_jinja(std::string_view source, std::string_view name) {
  if (source.size() > kMaximumSource) {
    throw Error(ErrorCode::kResourceExhausted, "{}: the template has {} bytes, at most {} are read", name,
                source.size(), kMaximumSource);
  }
  return JinjaParser(source, name).parse();
}

}  // namespace reprise::text
