#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::cli {

/// An option as it stands in a command line or a file.
struct Argument {
  std::string name;  ///< "--graph-bs"; empty for values in front of the first option
  std::vector<std::string> values = {};
  std::string place = {};  ///< "FILE, line 3"; empty for the command line
  bool implied = false;    ///< made of another one: it gives way to one that was given
};

/// What becomes of a flag of SGLang's server.
enum class SglangTreatment {
  kSame,        ///< `reprise serve` has it under the same name
  kRenamed,     ///< it has it as `target`
  kAlways,      ///< what it asks for is always so; `target`: the values for which that holds, empty for a flag
  kTranslated,  ///< it becomes what `target` says
  kRefused,     ///< there is nothing like it; `target` says what to do instead
};

struct SglangFlag {
  std::string_view name;
  SglangTreatment treatment;
  bool takes_value;
  std::string_view target;
};

/// All that are known, in the order of SGLang's own list.
std::span<const SglangFlag> sglang_flags();
const SglangFlag* find_sglang_flag(std::string_view name);

/// Puts options of Reprise in the place of SGLang's; what is none of SGLang's stays as it is. Throws kUnsupported for a
/// flag that is refused and for values that cannot be had, kInvalidArgument for flags that contradict each other,
/// naming the flag, its place, and what to use instead.
std::vector<Argument> translate_sglang_flags(const std::vector<Argument>& arguments);

}  // namespace reprise::cli
