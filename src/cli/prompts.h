#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::cli {

/// One prompt a line: a JSON object with "prompt" or "text", or a JSON string; lines without any text are skipped.
/// kCorruptData for others, with the line; kInvalidArgument when there is none.
std::vector<std::string> read_prompts(const std::string& path);

/// The prompts of the recipes' dataset "default": DIRECTORY/default_prompt.json, a JSON array of texts, or an object
/// with "text".
std::vector<std::string> read_default_prompts(const std::string& directory);

/// As many prompts as wanted, again from the first on when there are fewer. `prompts` must not be empty.
std::vector<std::string> repeat_prompts(const std::vector<std::string>& prompts, int32_t count);

}  // namespace reprise::cli
