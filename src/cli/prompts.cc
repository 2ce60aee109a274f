#include "cli/prompts.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/mapped_file.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The text of one line: a JSON object with "prompt" (or "text"), or a JSON string. Keys beside it are put into
/// `unused`.
std::optional<std::string> prompt_of(const Json& json, std::set<std::string>& unused) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_object()) return std::nullopt;
  for (const char* key : {"prompt", "text"}) {
    if (!json.contains(key) || !json[key].is_string()) continue;
    for (const auto& [name, value] : json.items()) {
      if (name != key) unused.insert(name);
    }
    return json[key].get<std::string>();
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> read_prompts(const std::string& path) {
  const std::string content = read_file(path);
  std::vector<std::string> prompts;
  std::set<std::string> unused;
  size_t line_number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const std::string line = content.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::optional<std::string> prompt = prompt_of(Json::parse(line, nullptr, false), unused);
    if (!prompt) {
      throw Error(ErrorCode::kCorruptData, "{}, line {}: expected {{\"prompt\": \"...\"}} or a JSON string", path,
                  line_number);
    }
    prompts.push_back(std::move(*prompt));
  }
  if (!unused.empty()) log_warning("{}: keys without effect: {}", path, fmt::join(unused, ", "));
  if (prompts.empty()) throw Error(ErrorCode::kInvalidArgument, "{} holds no prompt", path);
  return prompts;
}

std::vector<std::string> read_default_prompts(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / "default_prompt.json").string();
  const Json json = Json::parse(read_file(path), nullptr, false);
  std::vector<std::string> prompts;
  std::set<std::string> unused;
  if (json.is_object()) {
    if (std::optional<std::string> prompt = prompt_of(json, unused)) prompts.push_back(std::move(*prompt));
  } else if (json.is_array()) {
    for (const Json& item : json) {
      if (item.is_string()) prompts.push_back(item.get<std::string>());
    }
  }
  if (prompts.empty() || (json.is_array() && prompts.size() != json.size())) {
    throw Error(ErrorCode::kCorruptData, "{}: expected [\"PROMPT\", ...] or {{\"text\": \"PROMPT\"}}", path);
  }
  return prompts;
}

std::vector<std::string> repeat_prompts(const std::vector<std::string>& prompts, int32_t count) {
  std::vector<std::string> result;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) result.push_back(prompts[i % prompts.size()]);
  return result;
}

}  // namespace reprise::cli
