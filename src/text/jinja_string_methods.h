#pragma once

#include <string_view>

#include "text/jinja_arguments.h"
#include "text/jinja_run.h"
#include "text/jinja_value.h"

namespace reprise::text {

using JinjaStringMethod = JinjaValue (*)(JinjaRun&, const MarkedText&, JinjaArguments&);

/// Null for an unknown method.
JinjaStringMethod find_jinja_string_method(std::string_view name);

/// Python's str.splitlines(): the lines without their ends.
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends);

}  // namespace reprise::text
