#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace reprise::load {

/// Parses JSON text strictly: a key that occurs twice in one object, nesting deeper than 64 levels, text after the
/// value and numbers out of range are errors. Throws kCorruptData; messages begin with `what`, the name of the file.
nlohmann::json parse_json(std::string_view text, const std::string& what);

/// Text from a file made fit for a message: in quotes, control characters escaped, cut after `limit` bytes.
std::string printable(std::string_view text, size_t limit = 80);

/// A JSON value made fit for a message: strings as printable(), containers by their kind, the rest as written.
std::string describe(const nlohmann::json& value);

}  // namespace reprise::load
