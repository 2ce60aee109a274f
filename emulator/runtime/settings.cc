#include "emulator/runtime/settings.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

namespace reprise::emulator {

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

}  // namespace reprise::emulator
