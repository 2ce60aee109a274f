#include "cli/print_settings.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace reprise::cli {

std::string settings_yaml(const CommandLine& command, const std::set<std::string>& secret,
                          const std::set<std::string>& hidden) {
  using Json = nlohmann::ordered_json;
  std::string text;
  for (const CommandLine::Setting& setting : command.settings()) {
    if (hidden.contains(setting.name)) continue;
    if (secret.contains(setting.name)) {
      if (setting.given) text += fmt::format("# {}: given, and not shown\n", setting.name);
      continue;
    }
    std::vector<std::string> values;
    for (const std::string& value : setting.values) {
      // JSON's way of quoting is YAML's as well.
      values.push_back(setting.kind == CommandLine::Setting::Kind::kText
                           ? Json(value).dump(-1, ' ', true, Json::error_handler_t::replace)
                           : value);
    }
    if (setting.list) {
      text += fmt::format("{}: [{}]", setting.name, fmt::join(values, ", "));
    } else {
      text += fmt::format("{}: {}", setting.name, values.empty() ? "null" : values[0]);
    }
    if (values.empty() && !setting.unset_meaning.empty()) text += fmt::format("  # {}", setting.unset_meaning);
    text += "\n";
  }
  return text;
}

}  // namespace reprise::cli
