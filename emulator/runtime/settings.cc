#include "emulator/runtime/settings.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

namespace reprise::emulator {
namespace {

constexpr std::string_view kVariables[] = {"REPRISE_ACL_PROFILE",  "REPRISE_ACL_EXECUTE",    "REPRISE_ACL_POISON",
                                           "REPRISE_ACL_TRACE",    "REPRISE_ACL_FAULT",      "REPRISE_ACL_FAULT_COUNT",
                                           "REPRISE_ACL_VALIDATE", "REPRISE_ACL_STATISTICS", "REPRISE_ACL_TIMING"};

// How many letters have to be put in, left out or changed.
size_t letters_between(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string_view nearest_variable(std::string_view name) {
  std::string_view nearest;
  size_t least = std::numeric_limits<size_t>::max();
  for (const std::string_view variable : kVariables) {
    const size_t letters = letters_between(name, variable);
    if (letters < least) nearest = variable;
    least = std::min(least, letters);
  }
  return nearest;
}

}  // namespace

Status read_switch(const char* variable, bool& value) {
  const char* setting = std::getenv(variable);
  const std::string_view text = setting ? setting : "";
  if (text.empty()) return {};
  if (text != "0" && text != "1") {
    return Status(ACL_ERROR_INVALID_PARAM, fmt::format("{}: '{}' is neither 0 nor 1", variable, text));
  }
  value = text == "1";
  return {};
}

Status read_file_name(const char* variable, const char*& path) {
  const char* setting = std::getenv(variable);
  path = setting ? setting : "";
  const std::string_view text = path;
  constexpr std::string_view kWords[] = {"true", "false", "yes", "no", "on", "off"};
  const bool number = !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!number && std::ranges::find(kWords, text) == std::end(kWords)) return {};
  return Status(ACL_ERROR_INVALID_PARAM,
                fmt::format("{}: '{}' names no file; write ./{} for a file of that name", variable, text, text));
}

Status check_variables() {
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    if (!name.starts_with("REPRISE_ACL_") || std::ranges::find(kVariables, name) != std::end(kVariables)) continue;
    return Status(ACL_ERROR_INVALID_PARAM,
                  fmt::format("{} is no setting; the nearest is {}", name, nearest_variable(name)));
  }
  return {};
}

}  // namespace reprise::emulator
