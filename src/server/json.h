#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace reprise::server {

/// Objects keep the order of their keys: templates print tools as they came.
using Json = nlohmann::ordered_json;

/// Parses a body. Throws RequestError (400), never quoting the body, for text that is not JSON or not UTF-8 (a byte
/// order mark and lone surrogates included), more than kMaxJsonDepth levels, a key that occurs twice, a number that no
/// double holds, more than kMaxJsonValues values, and anything behind the value.
Json parse_json_body(std::string_view text);
inline constexpr int kMaxJsonDepth = 128;
/// What a value takes in memory is many times what it takes in a body.
inline constexpr int64_t kMaxJsonValues = 1'000'000;

/// One line of valid UTF-8, whatever the strings hold; also for those who take U+0085, U+2028 and U+2029 for line ends.
std::string to_text(const Json& value);

/// Appends a JSON string with its quotes, as one line in the same sense. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

/// At most about 80 bytes of a text, quoted, without control characters: for messages.
std::string quote_text(std::string_view text);

/// Appends a number as JSON: what is not finite becomes null... see docs/serving.md on log probabilities.
void append_json_number(std::string& out, double value);

}  // namespace reprise::server
