#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_run.h"
#include "text/jinja_value.h"

namespace reprise::text {

enum class JinjaOperator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kConcatenate,  // arithmetic
  kNegate,
  kPlus,
  kNot,  // of one operand
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,  // comparisons
};

struct JinjaExpression;
using JinjaExpressionPointer = std::unique_ptr<JinjaExpression>;

/// A node of an expression. What its fields mean depends on its kind.
struct JinjaExpression {
  enum class Kind : uint8_t {
    kLiteral,      ///< `literal`
    kName,         ///< `name`
    kList,         ///< operands
    kTuple,        ///< operands
    kMapping,      ///< operands: key, value, key, value ...
    kAttribute,    ///< operands[0].name
    kItem,         ///< operands[0][operands[1]]
    kSlice,        ///< operands[0][operands[1]:operands[2]:operands[3]], null where left out
    kCall,         ///< operands[0](operands[1] ..., keywords)
    kFilter,       ///< operands[0] | name(operands[1] ..., keywords); operands[0] is null in a filter block
    kTest,         ///< operands[0] is name(operands[1] ..., keywords)
    kUnary,        ///< operations[0] operands[0]
    kBinary,       ///< operands[0] operations[0] operands[1]
    kCompare,      ///< operands[0] operations[0] operands[1] operations[1] operands[2] ...
    kAnd,          ///< operands[0] and operands[1]
    kOr,           ///< operands[0] or operands[1]
    kConditional,  ///< operands[1] if operands[0] else operands[2], null where there is no else
  };
  Kind kind;
  JinjaPosition position;
  std::string name;
  JinjaValue literal;
  std::vector<JinjaExpressionPointer> operands;
  std::vector<std::pair<std::string, JinjaExpressionPointer>> keywords;
  std::vector<JinjaOperator> operations;
  int height = 1;  ///< levels of expressions, this one included
};

/// What an assignment or a loop assigns to: a name, an attribute of a namespace, or several targets.
struct JinjaTarget {
  std::string name;
  std::string attribute;              ///< empty unless `name.attribute`
  std::vector<JinjaTarget> elements;  ///< not empty: a value is unpacked
};

/// What a macro, or the body of a call block, takes.
struct JinjaSignature {
  std::vector<std::string> parameters;
  std::vector<JinjaExpressionPointer> defaults;  ///< of the last parameters
  bool takes_varargs = false;                    ///< the body uses `varargs`; likewise below
  bool takes_kwargs = false;
  bool takes_caller = false;
};

struct JinjaStatement;
using JinjaBlock = std::vector<JinjaStatement>;

/// A statement. What its fields mean depends on its kind.
struct JinjaStatement {
  enum class Kind : uint8_t {
    kText,         ///< `text`
    kOutput,       ///< expressions[0]
    kIf,           ///< expressions[i] guards bodies[i]; one body more is the else
    kFor,          ///< target, expressions[0] the elements, [1] the filter or null; bodies[0], [1] the else if present
    kSet,          ///< target, expressions[0]
    kSetBlock,     ///< target, bodies[0], filters in expressions[0] or null
    kMacro,        ///< `text` the name, signature, bodies[0]
    kCallBlock,    ///< signature, expressions[0] the call, bodies[0]
    kFilterBlock,  ///< expressions[0] the filters, bodies[0]
    kWith,         ///< targets, expressions[i] their values, bodies[0]
    kScope,        ///< bodies[0], in a scope of its own: what `generation` marks
    kBreak,
    kContinue,
  };
  Kind kind;
  JinjaPosition position;
  std::string text;
  std::vector<JinjaTarget> targets;
  std::vector<JinjaExpressionPointer> expressions;
  std::vector<JinjaBlock> bodies;
  JinjaSignature signature;
};

/// A parsed template. Immutable.
struct JinjaProgram {
  std::string name;
  JinjaBlock body;
  std::set<std::string, std::less<>> names;  ///< all that are read anywhere
};

}  // namespace reprise::text
