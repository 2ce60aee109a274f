#include "emulator/operators/operator_error.h"

namespace reprise::emulator {

std::string formatted(std::string_view format, std::initializer_list<TextValue> values) {
  std::string text;
  const auto* value = values.begin();
  while (!format.empty()) {
    const size_t hole = value == values.end() ? std::string_view::npos : format.find("{}");
    text.append(format.substr(0, hole));
    if (hole == std::string_view::npos) break;
    text.append(value++->text());
    format.remove_prefix(hole + 2);
  }
  return text;
}

}  // namespace reprise::emulator
