#pragma once

#include <string_view>

#include "text/jinja_arguments.h"
#include "text/jinja_run.h"
#include "text/jinja_value.h"

namespace reprise::text {

/// What stands behind `is`.
using JinjaTest = bool (*)(JinjaRun&, const JinjaValue&, JinjaArguments&);

/// Null for an unknown test.
JinjaTest find_jinja_test(std::string_view name);
/// Runs it; throws kUnsupported for an unknown one.
bool apply_jinja_test(JinjaRun& run, std::string_view name, const JinjaValue& value, JinjaArguments& arguments);

}  // namespace reprise::text
