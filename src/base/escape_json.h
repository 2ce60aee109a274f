#pragma once

#include <string>
#include <string_view>

namespace reprise {

/// Text as it stands between the quotes of a JSON string. Bytes above 0x7f stay as they are.
std::string escape_json(std::string_view text);

}  // namespace reprise
