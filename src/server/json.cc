#include "server/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "server/request_error.h"
#include "text/utf8.h"

namespace reprise::server {
namespace {

/// Line ends for those who read text instead of bytes, such as Python's splitlines(): raw, they would cut an event in
/// two.
struct LineEnd {
  std::string_view bytes;
  std::string_view escaped;
};
constexpr std::array<LineEnd, 3> kLineEnds = {
    {{"\xC2\x85", "\\u0085"}, {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}}};

/// The one that a valid text begins with, else null.
const LineEnd* line_end_at(std::string_view text) {
  const char first = text.front();
  if (first != '\xC2' && first != '\xE2') return nullptr;
  const auto found = std::find_if(kLineEnds.begin(), kLineEnds.end(),
                                  [text](const LineEnd& end) { return text.starts_with(end.bytes); });
  return found == kLineEnds.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_body(std::string message) {
  throw RequestError(ErrorCode::kInvalidArgument, std::move(message), {}, "invalid_json");
}

/// Builds the value while the text is read. Nothing recurses, and keys are found by hash: nlohmann's ordered objects
/// look for a key from front to back, which a body of many keys would make quadratic.
class BodyReader : public nlohmann::json_sax<Json> {
 public:
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*spelling*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return open(Json::object()); }
  bool start_array(size_t /*size*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    Level& level = levels_.back();
    if (!level.keys.insert(value).second) refuse_body(fmt::format("The key {} occurs twice.", quote_text(value)));
    level.key = std::move(value);
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::json::exception& error) override {
    if (error.id == 406) refuse_body("The body holds a number that is too large.");
    refuse_body(fmt::format("The body is not valid JSON (UTF-8): error at byte {}.", position));
  }

 private:
  struct Level {
    Json value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  bool add(Json value) {
    if (++values_ > kMaxJsonValues) refuse_body(fmt::format("The body holds more than {} values.", kMaxJsonValues));
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (Level& level = levels_.back(); level.value.is_object()) {
      level.value.get_ref<Json::object_t&>().push_back({std::move(level.key), std::move(value)});
    } else {
      level.value.get_ref<Json::array_t&>().push_back(std::move(value));
    }
    return true;
  }
  bool open(Json value) {
    if (levels_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      refuse_body(fmt::format("The body nests deeper than {} levels.", kMaxJsonDepth));
    }
    levels_.push_back({std::move(value), {}, {}});
    return true;
  }
  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return add(std::move(value));
  }

  int64_t values_ = 0;
  std::vector<Level> levels_;
  Json root_;
};

}  // namespace

Json parse_json_body(std::string_view text) {
  if (text.empty()) refuse_body("The body is empty: expected a JSON object.");
  // The parser would pass over it; nobody else who reads the body has to.
  if (text.starts_with("\xEF\xBB\xBF")) refuse_body("The body begins with a byte order mark, which JSON has not.");
  BodyReader reader;
  Json::sax_parse(text, &reader);
  return reader.take();
}

std::string to_text(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string escaped;
  size_t plain = 0;  // where what is not in `escaped` begins
  for (size_t i = text.find_first_of("\xC2\xE2"); i != std::string::npos; i = text.find_first_of("\xC2\xE2", i + 1)) {
    const LineEnd* end = line_end_at(std::string_view(text).substr(i));
    if (end == nullptr) continue;
    escaped.append(text, plain, i - plain).append(end->escaped);
    plain = i + end->bytes.size();
  }
  return plain == 0 ? text : escaped.append(text, plain);
}

void append_json_string(std::string& out, std::string_view text) {
  if (!text::is_valid_utf8(text)) return append_json_string(out, text::to_valid_utf8(text));
  out += '"';
  size_t plain = 0;  // where what needs no escape begins
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (const LineEnd* end = byte >= 0x80 ? line_end_at(text.substr(i)) : nullptr) {
      out.append(text.substr(plain, i - plain)).append(end->escaped);
      plain = i + end->bytes.size();
      i = plain - 1;
      continue;
    }
    if (byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7F) continue;
    out.append(text.substr(plain, i - plain));
    plain = i + 1;
    switch (text[i]) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        out += fmt::format("\\u{:04x}", byte);
    }
  }
  out.append(text.substr(plain));
  out += '"';
}

std::string quote_text(std::string_view text) {
  constexpr size_t kLimit = 80;
  size_t end = std::min(text.size(), kLimit);
  // Not inside a character.
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  std::string result = "'";
  for (const char c : text.substr(0, end)) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  return text::to_valid_utf8(result + (end < text.size() ? "...'" : "'"));
}

void append_json_number(std::string& out, double value) {
  if (std::isfinite(value)) {
    out += fmt::format("{}", value);
  } else {
    out += "null";
  }
}

}  // namespace reprise::server
