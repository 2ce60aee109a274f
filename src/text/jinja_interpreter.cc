#include "text/jinja_interpreter.h"

#include <algorithm>
#include <map>
#include <memory>

#include "text/jinja_filters.h"
#include "text/jinja_functions.h"
#include "text/jinja_operators.h"
#include "text/jinja_tests.h"

namespace reprise::text {

namespace {

struct JinjaScope {
  std::shared_ptr<JinjaScope> parent;
  std::map<std::string, JinjaValue, std::less<>> variables;
};
using ScopePointer = std::shared_ptr<JinjaScope>;

class JinjaInterpreter;

/// A macro, or the body of a call block, with the scope that it was made in.
class JinjaMacro : public JinjaObject {
 public:
  JinjaMacro(JinjaInterpreter& owner, const JinjaStatement& statement, ScopePointer defined_in)
      : interpreter(owner), definition(statement), scope(std::move(defined_in)) {}
  std::string_view type_name() const override { return "macro"; }
  std::optional<JinjaValue> attribute(std::string_view name) const override {
    if (name == "name") return JinjaValue(definition.text, Origin::kTemplate);
    return std::nullopt;
  }
  bool callable() const override { return true; }
  JinjaValue call(JinjaRun& run, JinjaArguments& arguments) override;
  /// The scope holds the macro, which holds the scope.
  void release() override { scope.reset(); }

  JinjaInterpreter& interpreter;
  const JinjaStatement& definition;
  ScopePointer scope;
};

class JinjaInterpreter {
 public:
  JinjaInterpreter(JinjaRun& run, const JinjaVariables& variables) : run_(run), scope_(std::make_shared<JinjaScope>()) {
    for (const auto& [name, value] : variables) scope_->variables[name] = value;
  }

  MarkedText render(const JinjaProgram& program) {
    MarkedText out;
    execute(program.body, out);
    return out;
  }

  JinjaValue call_macro(const JinjaMacro& macro, JinjaArguments& arguments) {
    const JinjaRun::Level level(run_);
    const JinjaPosition called_from = run_.position;
    const ScopeGuard guard(*this, macro.scope);
    bind_parameters(macro.definition.signature, arguments);
    arguments.finish(run_, fmt::format("the macro '{}'", macro.definition.text));
    MarkedText out;
    execute(macro.definition.bodies[0], out);
    run_.position = called_from;
    return make_jinja_text(run_, std::move(out));
  }

 private:
  enum class Flow { kNext, kBreak, kContinue };
  using Kind = JinjaExpression::Kind;

  /// A new scope inside another one while it lives.
  class ScopeGuard {
   public:
    ScopeGuard(JinjaInterpreter& interpreter, ScopePointer parent)
        : interpreter_(interpreter), outer_(std::move(interpreter.scope_)) {
      interpreter.scope_ = std::make_shared<JinjaScope>();
      interpreter.scope_->parent = std::move(parent);
    }
    explicit ScopeGuard(JinjaInterpreter& interpreter) : ScopeGuard(interpreter, interpreter.scope_) {}
    ~ScopeGuard() { interpreter_.scope_ = std::move(outer_); }
    ScopeGuard(const ScopeGuard&) = delete;

   private:
    JinjaInterpreter& interpreter_;
    ScopePointer outer_;
  };

  void bind_parameters(const JinjaSignature& signature, JinjaArguments& arguments) {
    auto& variables = scope_->variables;
    const size_t count = signature.parameters.size();
    const size_t required = count - signature.defaults.size();
    for (size_t i = 0; i < count; ++i) {
      const std::string& name = signature.parameters[i];
      if (const JinjaValue* given = arguments.take(i, name)) {
        variables[name] = *given;
      } else if (i >= required) {
        variables[name] = evaluate(*signature.defaults[i - required]);
      } else {
        variables[name] = JinjaValue::undefined(fmt::format("the parameter '{}' was not given", name));
      }
    }
    if (signature.takes_caller) {
      const JinjaValue* caller = arguments.take_named("caller");
      variables["caller"] = caller ? *caller : JinjaValue::undefined("the macro was not called by a call block");
    }
    if (signature.takes_varargs) {
      std::vector<JinjaValue> rest;
      for (size_t i = count; i < arguments.positional.size(); ++i) rest.push_back(*arguments.take(i, ""));
      variables["varargs"] = make_jinja_list(run_, std::move(rest), JinjaList::Kind::kTuple);
    }
    if (signature.takes_kwargs) {
      JinjaMapping rest;
      for (const auto& [name, value] : arguments.keywords) {
        const bool parameter =
            std::find(signature.parameters.begin(), signature.parameters.end(), name) != signature.parameters.end();
        if (!parameter && name != "caller") rest.insert(JinjaValue(name, Origin::kTemplate), value);
      }
      arguments.take_keywords();
      variables["kwargs"] = JinjaValue(std::move(rest));
    }
  }

  // Statements.

  Flow execute(const JinjaBlock& block, MarkedText& out) {
    const JinjaRun::Level level(run_);
    for (const JinjaStatement& statement : block) {
      run_.position = statement.position;
      run_.step();
      if (const Flow flow = execute(statement, out); flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Flow execute(const JinjaStatement& statement, MarkedText& out) {
    switch (statement.kind) {
      case JinjaStatement::Kind::kText:
        write(MarkedText(statement.text, Origin::kTemplate), out);
        break;
      case JinjaStatement::Kind::kOutput:
        write(jinja_to_text(run_, evaluate(*statement.expressions[0])), out);
        break;
      case JinjaStatement::Kind::kIf:
        return execute_if(statement, out);
      case JinjaStatement::Kind::kFor:
        return execute_for(statement, out);
      case JinjaStatement::Kind::kSet:
        assign(statement.targets[0], evaluate(*statement.expressions[0]), statement.position);
        break;
      case JinjaStatement::Kind::kSetBlock: {
        JinjaValue value = make_jinja_text(run_, execute_apart(statement.bodies[0]));
        if (statement.expressions[0]) value = evaluate_filters(*statement.expressions[0], std::move(value));
        assign(statement.targets[0], std::move(value), statement.position);
        break;
      }
      case JinjaStatement::Kind::kMacro:
        scope_->variables[statement.text] = make_macro(statement);
        break;
      case JinjaStatement::Kind::kCallBlock:
        write(jinja_to_text(run_, evaluate_call(*statement.expressions[0], make_macro(statement))), out);
        break;
      case JinjaStatement::Kind::kFilterBlock: {
        JinjaValue body = make_jinja_text(run_, execute_apart(statement.bodies[0]));
        write(jinja_to_text(run_, evaluate_filters(*statement.expressions[0], std::move(body))), out);
        break;
      }
      case JinjaStatement::Kind::kWith:
        return execute_with(statement, out);
      case JinjaStatement::Kind::kScope: {
        const ScopeGuard guard(*this);
        return execute(statement.bodies[0], out);
      }
      case JinjaStatement::Kind::kBreak:
        return Flow::kBreak;
      case JinjaStatement::Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  void write(const MarkedText& text, MarkedText& out) {
    run_.charge_bytes(text.size());
    run_.check_size(out.size() + text.size());
    out.append(text);
  }
  /// What a block writes, in a scope of its own.
  MarkedText execute_apart(const JinjaBlock& block) {
    const ScopeGuard guard(*this);
    MarkedText out;
    execute(block, out);
    return out;
  }
  JinjaValue make_macro(const JinjaStatement& statement) {
    auto macro = std::make_shared<JinjaMacro>(*this, statement, scope_);
    run_.keep(macro);
    return std::shared_ptr<JinjaObject>(std::move(macro));
  }

  Flow execute_if(const JinjaStatement& statement, MarkedText& out) {
    for (size_t i = 0; i < statement.expressions.size(); ++i) {
      if (evaluate(*statement.expressions[i]).truthy()) return execute(statement.bodies[i], out);
    }
    const bool has_else = statement.bodies.size() > statement.expressions.size();
    return has_else ? execute(statement.bodies.back(), out) : Flow::kNext;
  }

  Flow execute_with(const JinjaStatement& statement, MarkedText& out) {
    std::vector<JinjaValue> values;
    for (const auto& expression : statement.expressions) values.push_back(evaluate(*expression));
    const ScopeGuard guard(*this);
    for (size_t i = 0; i < values.size(); ++i) assign(statement.targets[i], std::move(values[i]), statement.position);
    return execute(statement.bodies[0], out);
  }

  /// The elements of a loop that its filter lets pass.
  std::vector<JinjaValue> loop_elements(const JinjaStatement& statement) {
    std::vector<JinjaValue> elements = jinja_elements(run_, evaluate(*statement.expressions[0]));
    if (!statement.expressions[1]) return elements;
    std::vector<JinjaValue> kept;
    const ScopeGuard guard(*this);
    for (JinjaValue& element : elements) {
      run_.step();
      assign(statement.targets[0], element, statement.position);
      if (evaluate(*statement.expressions[1]).truthy()) kept.push_back(std::move(element));
    }
    return kept;
  }

  Flow execute_for(const JinjaStatement& statement, MarkedText& out) {
    const auto loop = std::make_shared<JinjaLoop>(loop_elements(statement));
    if (loop->elements().empty()) {
      return statement.bodies.size() > 1 ? execute(statement.bodies[1], out) : Flow::kNext;
    }
    const JinjaValue loop_value{std::shared_ptr<JinjaObject>(loop)};
    for (size_t i = 0; i < loop->elements().size(); ++i) {
      run_.step();
      loop->go_to(i);
      const ScopeGuard guard(*this);
      scope_->variables["loop"] = loop_value;
      assign(statement.targets[0], loop->elements()[i], statement.position);
      if (execute(statement.bodies[0], out) == Flow::kBreak) break;
    }
    return Flow::kNext;
  }

  void assign(const JinjaTarget& target, JinjaValue value, const JinjaPosition& place) {
    if (!target.elements.empty()) {
      run_.position = place;
      if (value.is_undefined()) run_.fail("{}", value.undefined_text());
      std::vector<JinjaValue> elements = jinja_elements(run_, value);
      if (elements.size() != target.elements.size()) {
        run_.fail("{} values cannot be unpacked into {} names", elements.size(), target.elements.size());
      }
      for (size_t i = 0; i < elements.size(); ++i) assign(target.elements[i], std::move(elements[i]), place);
    } else if (!target.attribute.empty()) {
      run_.position = place;
      const JinjaValue owner = look_up(target.name);
      auto* space = owner.object_as<JinjaNamespace>();
      if (!space)
        run_.fail("'{}' is {}: only the attributes of a namespace can be set", target.name, owner.type_name());
      space->set(target.attribute, std::move(value));
    } else {
      scope_->variables[target.name] = std::move(value);
    }
  }

  // Expressions.

  JinjaValue look_up(const std::string& name) {
    for (const JinjaScope* scope = scope_.get(); scope; scope = scope->parent.get()) {
      if (const auto found = scope->variables.find(name); found != scope->variables.end()) return found->second;
    }
    if (auto function = make_jinja_function(name)) return function;
    return JinjaValue::undefined(fmt::format("'{}' is undefined", name));
  }

  JinjaValue evaluate(const JinjaExpression& node) {
    const JinjaRun::Level level(run_);
    run_.position = node.position;
    run_.step();
    switch (node.kind) {
      case Kind::kLiteral:
        return node.literal;
      case Kind::kName:
        return look_up(node.name);
      case Kind::kList:
        return make_jinja_list(run_, evaluate_operands(node, 0));
      case Kind::kTuple:
        return make_jinja_list(run_, evaluate_operands(node, 0), JinjaList::Kind::kTuple);
      case Kind::kMapping:
        return evaluate_mapping(node);
      case Kind::kCall:
        return evaluate_call(node, std::nullopt);
      case Kind::kFilter:
      case Kind::kTest:
        return evaluate_filter_or_test(node);
      case Kind::kCompare:
        return evaluate_compare(node);
      case Kind::kAnd:
      case Kind::kOr: {
        JinjaValue left = evaluate(*node.operands[0]);
        return left.truthy() == (node.kind == Kind::kOr) ? left : evaluate(*node.operands[1]);
      }
      case Kind::kConditional:
        return evaluate_conditional(node);
      default:
        return evaluate_operation(node);
    }
  }

  JinjaValue evaluate_operation(const JinjaExpression& node) {
    const JinjaValue first = evaluate(*node.operands[0]);
    const auto optional_operand = [&](size_t i) {
      return node.operands[i] ? evaluate(*node.operands[i]) : JinjaValue();
    };
    switch (node.kind) {
      case Kind::kAttribute:
        run_.position = node.position;
        return jinja_attribute(run_, first, node.name);
      case Kind::kUnary:
        run_.position = node.position;
        return jinja_unary(run_, node.operations[0], first);
      case Kind::kSlice: {
        const JinjaValue start = optional_operand(1);
        const JinjaValue stop = optional_operand(2);
        const JinjaValue step = optional_operand(3);
        run_.position = node.position;
        return jinja_slice(run_, first, start, stop, step);
      }
      default:
        break;
    }
    const JinjaValue second = evaluate(*node.operands[1]);
    run_.position = node.position;
    return node.kind == Kind::kItem ? jinja_item(run_, first, second)
                                    : jinja_binary(run_, node.operations[0], first, second);
  }

  std::vector<JinjaValue> evaluate_operands(const JinjaExpression& node, size_t first) {
    std::vector<JinjaValue> values;
    for (size_t i = first; i < node.operands.size(); ++i) values.push_back(evaluate(*node.operands[i]));
    return values;
  }

  JinjaValue evaluate_mapping(const JinjaExpression& node) {
    JinjaMapping mapping;
    run_.charge_bytes(node.operands.size() * sizeof(JinjaValue));
    for (size_t i = 0; i + 1 < node.operands.size(); i += 2) {
      JinjaValue key = evaluate(*node.operands[i]);
      JinjaValue value = evaluate(*node.operands[i + 1]);
      run_.position = node.operands[i]->position;
      mapping.insert(std::move(key), std::move(value));
    }
    return JinjaValue(std::move(mapping));
  }

  JinjaValue evaluate_conditional(const JinjaExpression& node) {
    if (evaluate(*node.operands[0]).truthy()) return evaluate(*node.operands[1]);
    if (node.operands[2]) return evaluate(*node.operands[2]);
    return JinjaValue::undefined("the condition is false and there is no else");
  }

  JinjaValue evaluate_compare(const JinjaExpression& node) {
    JinjaValue left = evaluate(*node.operands[0]);
    for (size_t i = 0; i < node.operations.size(); ++i) {
      JinjaValue right = evaluate(*node.operands[i + 1]);
      run_.position = node.position;
      if (!jinja_compare(run_, node.operations[i], left, right)) return false;
      left = std::move(right);
    }
    return true;
  }

  JinjaArguments evaluate_arguments(const JinjaExpression& node) {
    JinjaArguments arguments;
    arguments.positional = evaluate_operands(node, 1);
    for (const auto& [name, value] : node.keywords) arguments.keywords.emplace_back(name, evaluate(*value));
    return arguments;
  }

  JinjaValue evaluate_call(const JinjaExpression& node, std::optional<JinjaValue> caller) {
    const JinjaValue callee = evaluate(*node.operands[0]);
    JinjaArguments arguments = evaluate_arguments(node);
    if (caller) arguments.keywords.emplace_back("caller", *std::move(caller));
    run_.position = node.position;
    if (callee.is_undefined()) run_.fail("{}, so it cannot be called", callee.undefined_text());
    if (!callee.object()) run_.fail("a value of type {} cannot be called", callee.type_name());
    return callee.object()->call(run_, arguments);
  }

  JinjaValue evaluate_filter_or_test(const JinjaExpression& node) {
    const JinjaValue input = node.operands[0] ? evaluate(*node.operands[0]) : block_input_;
    JinjaArguments arguments = evaluate_arguments(node);
    run_.position = node.position;
    if (node.kind == Kind::kTest) return apply_jinja_test(run_, node.name, input, arguments);
    return apply_jinja_filter(run_, node.name, input, arguments);
  }

  /// The filters of a block, on what it wrote.
  JinjaValue evaluate_filters(const JinjaExpression& filters, JinjaValue input) {
    JinjaValue outer = std::exchange(block_input_, std::move(input));
    JinjaValue result = evaluate(filters);
    block_input_ = std::move(outer);
    return result;
  }

  JinjaRun& run_;
  ScopePointer scope_;
  JinjaValue block_input_;  // of the filter block whose filters are being evaluated
};

JinjaValue JinjaMacro::call(JinjaRun&, JinjaArguments& arguments) { return interpreter.call_macro(*this, arguments); }

}  // namespace

MarkedText render_jinja(const JinjaProgram& program, const JinjaVariables& variables, const JinjaOptions& options) {
  JinjaRun run(program.name, options.limits, options.now);
  try {
    return JinjaInterpreter(run, variables).render(program);
  } catch (Error& error) {
    // Values know nothing of the place where they are made.
    if (!error.message().starts_with(program.name + ":")) {
      error.add_context(fmt::format("{}:{}:{}", program.name, run.position.line, run.position.column));
    }
    throw;
  }
}

}  // namespace reprise::text
