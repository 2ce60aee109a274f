#pragma once

#include <functional>
#include <string>
#include <vector>

namespace reprise::cli {

/// The arguments of `reprise serve` as its own options: those of a file of --config in front of those of the command
/// line, which win, and SGLang's flags translated in both. `long_name`: the first long name ("--model") of an option of
/// the command ("-m"), empty for what is none. Throws what translate_sglang_flags() throws, kCorruptData for a file
/// that is no YAML, kInvalidArgument for keys that are no options, naming the line, kNotFound, kIo.
std::vector<std::string> resolve_serve_arguments(const std::vector<std::string>& arguments,
                                                 const std::function<std::string(const std::string&)>& long_name);

/// The same with the file's text at hand; `name` stands for it in messages.
std::vector<std::string> merge_serve_arguments(const std::vector<std::string>& arguments, const std::string& file_text,
                                               const std::string& name,
                                               const std::function<std::string(const std::string&)>& long_name);

}  // namespace reprise::cli
