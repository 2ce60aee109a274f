#pragma once

#include <memory>
#include <string_view>

#include "text/jinja_ast.h"

namespace reprise::text {

/// Parses a template. `name` stands in messages for it. Throws kCorruptData for what is not Jinja, kUnsupported for
/// tags, filters, tests, functions and methods that are not built (also those which Hugging Face's sandbox forbids,
/// such as list.append), both with name, line and column.
std::shared_ptr<const JinjaProgram> parse_jinja(std::string_view source, std::string_view name);

}  // namespace reprise::text
