#include "ops/attribute.h"

#include <fmt/core.h>

namespace reprise::ops {

std::string to_string(const Attribute& attribute) {
  switch (static_cast<AttributeKind>(attribute.index())) {
    case AttributeKind::kInt:
      return fmt::format("{}", std::get<int64_t>(attribute));
    case AttributeKind::kFloat: {
      // fmt's shortest form that reads back as the same number; a point tells it from an integer.
      std::string text = fmt::format("{}", std::get<double>(attribute));
      if (text.find_first_of(".en") == std::string::npos) text += ".0";
      return text;
    }
    case AttributeKind::kBool:
      return std::get<bool>(attribute) ? "true" : "false";
    case AttributeKind::kDType:
      return std::string(name_of(std::get<DType>(attribute)));
    case AttributeKind::kShape:
      return std::get<Shape>(attribute).to_string();
    case AttributeKind::kString: {
      std::string text = "\"";
      for (const char c : std::get<std::string>(attribute)) {
        if (c == '"' || c == '\\') text += '\\';
        text += c;
      }
      return text + "\"";
    }
  }
  return "";
}

}  // namespace reprise::ops
