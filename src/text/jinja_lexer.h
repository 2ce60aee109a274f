#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_run.h"

namespace reprise::text {

/// A piece of a template.
struct JinjaToken {
  enum class Kind : uint8_t {
    kText,
    kOutputBegin,  ///< {{
    kOutputEnd,
    kBlockBegin,  ///< {%
    kBlockEnd,
    kName,
    kString,   ///< `text` is unescaped
    kInteger,  ///< `integer`
    kFloat,    ///< `number`
    kOperator,
    kEnd,
  };
  Kind kind;
  std::string text;
  JinjaPosition position;
  int64_t integer = 0;
  double number = 0;
};

/// Cuts a template into tokens, the last of kind kEnd. White space is controlled as Hugging Face sets Jinja2 up:
/// trim_blocks and lstrip_blocks are on, `-` and `+` marks are obeyed, a newline at the end of the template is dropped.
/// Throws kCorruptData with name, line and column for what no template may hold.
std::vector<JinjaToken> lex_jinja(std::string_view source, std::string_view name);

}  // namespace reprise::text
