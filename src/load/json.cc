#include "load/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"

namespace reprise::load {
namespace {

constexpr int kMaxDepth = 64;

/// Watches a parse for what nlohmann's parser lets pass.
class StrictCallback {
 public:
  explicit StrictCallback(const std::string& what) : what_(what) {}

  bool operator()(int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > kMaxDepth) throw Error(ErrorCode::kCorruptData, "{}: nested deeper than {} levels", what_, kMaxDepth);
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        throw Error(ErrorCode::kCorruptData, "{}: key {} occurs twice", what_, printable(key));
      }
    }
    return true;
  }

 private:
  const std::string& what_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& what) {
  StrictCallback callback(what);
  // A reference wrapper, because nlohmann copies the callback.
  const nlohmann::json::parser_callback_t strict = std::ref(callback);
  try {
    return nlohmann::json::parse(text.begin(), text.end(), strict);
  } catch (const nlohmann::json::parse_error& error) {
    if (error.byte > text.size()) {
      throw Error(ErrorCode::kCorruptData, "{} is not valid JSON: it ends after {} bytes, in the middle", what,
                  text.size());
    }
    throw Error(ErrorCode::kCorruptData, "{} is not valid JSON: error at byte {} of {}", what, error.byte, text.size());
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kCorruptData, "{} is not valid JSON: it holds a number that no double can hold", what);
  }
}

std::string printable(std::string_view text, size_t limit) {
  size_t end = std::min(text.size(), limit);
  // Not inside a UTF-8 character.
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  std::string result = "\"";
  for (const char c : text.substr(0, end)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      result += c;
    }
  }
  if (end < text.size()) result += "...";
  return result + "\"";
}

std::string describe(const nlohmann::json& value) {
  if (value.is_string()) return printable(value.get_ref<const std::string&>());
  if (value.is_object()) return "an object";
  if (value.is_array()) return value.size() > 8 ? "a list" : printable(value.dump(-1, ' ', true));
  return value.dump();
}

}  // namespace reprise::load
