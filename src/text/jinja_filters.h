#pragma once

#include <string_view>

#include "text/jinja_arguments.h"
#include "text/jinja_run.h"
#include "text/jinja_value.h"

namespace reprise::text {

/// What stands behind `|`, with Jinja2's meaning (tojson: with Hugging Face's).
using JinjaFilter = JinjaValue (*)(JinjaRun&, const JinjaValue&, JinjaArguments&);

bool is_jinja_filter(std::string_view name);
/// Runs it; throws kUnsupported for an unknown one.
JinjaValue apply_jinja_filter(JinjaRun& run, std::string_view name, const JinjaValue& value, JinjaArguments& arguments);

/// The filters on texts and numbers, and those on sequences; null for an unknown one.
JinjaFilter find_jinja_text_filter(std::string_view name);
JinjaFilter find_jinja_sequence_filter(std::string_view name);

}  // namespace reprise::text
