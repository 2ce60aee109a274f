#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compile/pass_options.h"

namespace reprise::compile {

/// Sets one compile option by the name that npugraph_ex gives it. Strict: a bool is `true` or `false` and nothing else.
/// kInvalidArgument for an unknown name (with the nearest known one) or a wrong value; kUnsupported, by name, for
/// options of what is not built.
void set_option(PassOptions& options, std::string_view name, std::string_view value);

/// The names that set_option() takes.
std::vector<std::string> option_names();
/// Names of npugraph_ex's other options, which are refused.
std::vector<std::string> unbuilt_option_names();

}  // namespace reprise::compile
