#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_run.h"
#include "text/jinja_value.h"

namespace reprise::text {

using JinjaVariables = std::vector<std::pair<std::string, JinjaValue>>;

struct JinjaOptions {
  JinjaLimits limits;
  std::optional<std::tm> now;  ///< what strftime_now spells; the local time of the call unless given
};

/// Renders a template: its text counts as the template's, variables keep their marks. It sees nothing but them (and the
/// time). Of variables of the same name the last counts. Throws kInvalidArgument where the template refuses its input
/// or asks of a value what its type cannot do, kResourceExhausted when it leaves the limits; messages name line and
/// column. May be called by several threads at once.
MarkedText render_jinja(const JinjaProgram& program, const JinjaVariables& variables, const JinjaOptions& options);

}  // namespace reprise::text
