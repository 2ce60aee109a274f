#pragma once

#include <string_view>

#include "text/jinja_run.h"
#include "text/jinja_value.h"

namespace reprise::text {

/// How `tojson` writes, as Python's json.dumps.
struct JinjaJsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  int indent = -1;  ///< spaces a level; -1 writes one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// Appends the value as JSON. Strings keep their marks; what is written around them counts as the template's.
void append_json(JinjaRun& run, const JinjaValue& value, const JinjaJsonStyle& style, MarkedText& out);

/// A number as Python's repr() spells it.
std::string spell_float(double value);

}  // namespace reprise::text
