#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compile/compile_options.h"

namespace reprise::compile {

/// A value as a caller has it. No type is converted into another.
using OptionValue = std::variant<bool, int64_t, std::string, std::vector<int64_t>>;

enum class OptionState {
  kBuilt,    ///< set_option() takes it
  kOnlyCpp,  ///< holds functions or memory, which only a C++ program can give
  kUnbuilt,  ///< what it controls is not built: refused by name
};

/// "built", "C++ only", "not built".
std::string_view name_of(OptionState state);

/// One compile option.
struct OptionInfo {
  std::string_view name;
  std::string_view default_text;
  std::string_view rule;    ///< type and allowed values, as in "must be RULE"
  std::string_view effect;  ///< one line
  OptionState state;
  bool changes_code;  ///< what is compiled depends on it: it is part of code_key()
};

/// All options of npugraph_ex, and Reprise's own at the end.
std::span<const OptionInfo> option_table();

/// Sets an option by its name. Strict: a bool is a bool, not 0 or 1 or a text. kInvalidArgument for an unknown name
/// (with the nearest known one) and for a wrong type or value, with what is allowed; kUnsupported, by name, for options
/// of what is not built and for those that only a C++ program can set.
void set_option(CompileOptions& options, std::string_view name, const OptionValue& value);
/// The same with a value as it is typed on a command line: a bool is `true` or `false`, an integer decimal digits.
void set_option_text(CompileOptions& options, std::string_view name, std::string_view text);

/// The value of an option that is built, as set_option_text() takes it.
std::string option_text(const CompileOptions& options, std::string_view name);

/// Everything that changes what is compiled, as text: options, disabled passes, the names of replacements and custom
/// passes. Two keys differ when the code may differ. Replacements and passes are known by their names alone.
std::string code_key(const CompileOptions& options);

}  // namespace reprise::compile
