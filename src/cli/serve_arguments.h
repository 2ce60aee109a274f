#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace reprise::cli {

/// An option of the command.
struct KnownOption {
  std::string name;           ///< its first long name, "--model" for "-m"; empty for what is none
  std::string fallback = {};  ///< the value that it has when it is not given
  bool flag = false;          ///< it takes none
};
using FindOption = std::function<KnownOption(const std::string&)>;

/// Arguments as the command reads them.
struct ServeArguments {
  std::vector<std::string> tokens;
  std::map<std::string, std::string> places = {};  ///< of options that a file has given: "--port" to "FILE, line 3"
};

/// The arguments of `reprise serve` as its own options: those of a file of --config in front of those of the command
/// line, which win, and SGLang's flags translated in both. What a file gives as it is without being given, such as what
/// --print-config has printed of defaults, does not count as given. Throws what translate_sglang_flags() throws,
/// kCorruptData for a file that is no YAML, kInvalidArgument for keys that are no options, naming the line, kNotFound,
/// kIo.
ServeArguments resolve_serve_arguments(const std::vector<std::string>& arguments, const FindOption& find_option);

/// The same with the file's text at hand; `name` stands for it in messages.
ServeArguments merge_serve_arguments(const std::vector<std::string>& arguments, const std::string& file_text,
                                     const std::string& name, const FindOption& find_option);

}  // namespace reprise::cli
