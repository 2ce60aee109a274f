#pragma once

#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_run.h"
#include "text/jinja_value.h"

namespace reprise::text {

/// What operators do, with Python's meaning. All throw kInvalidArgument with the run's place for operands of types that
/// Python refuses, and kUnsupported where integers leave 64 bits.

JinjaValue jinja_binary(JinjaRun& run, JinjaOperator operation, const JinjaValue& left, const JinjaValue& right);
JinjaValue jinja_unary(JinjaRun& run, JinjaOperator operation, const JinjaValue& operand);
bool jinja_compare(JinjaRun& run, JinjaOperator operation, const JinjaValue& left, const JinjaValue& right);
bool jinja_equal(JinjaRun& run, const JinjaValue& left, const JinjaValue& right);
bool jinja_less(JinjaRun& run, const JinjaValue& left, const JinjaValue& right);
bool jinja_contains(JinjaRun& run, const JinjaValue& container, const JinjaValue& item);

/// `value.name`: a method or attribute of the value, else the entry of that key, else undefined.
JinjaValue jinja_attribute(JinjaRun& run, const JinjaValue& value, const std::string& name);
/// `value[key]`: the element or entry, else the attribute of that name, else undefined.
JinjaValue jinja_item(JinjaRun& run, const JinjaValue& value, const JinjaValue& key);
/// `value[start:stop:step]`; none or undefined: left out.
JinjaValue jinja_slice(JinjaRun& run, const JinjaValue& value, const JinjaValue& start, const JinjaValue& stop,
                       const JinjaValue& step);

/// Python's str(): the text itself, or what it would print.
MarkedText jinja_to_text(JinjaRun& run, const JinjaValue& value);
/// Makes a value of a text, or of a list, and charges the run for it.
JinjaValue make_jinja_text(JinjaRun& run, MarkedText text);
JinjaValue make_jinja_list(JinjaRun& run, std::vector<JinjaValue> elements,
                           JinjaList::Kind kind = JinjaList::Kind::kList);
/// Python's str.replace(), charged to the run; a negative count replaces all.
JinjaValue replace_jinja_text(JinjaRun& run, const MarkedText& text, const MarkedText& from, const MarkedText& to,
                              int64_t count);
/// What iterating over the value yields: elements, keys, characters; nothing for undefined.
std::vector<JinjaValue> jinja_elements(JinjaRun& run, const JinjaValue& value);

}  // namespace reprise::text
