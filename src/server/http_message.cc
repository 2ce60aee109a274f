#include "server/http_message.h"

#include <algorithm>
#include <array>

namespace reprise::server {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (lower(c) >= 'a' && lower(c) <= 'f') return lower(c) - 'a' + 10;
  return -1;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return {};
}

std::string_view reason_phrase(int status) {
  struct Phrase {
    int status;
    std::string_view text;
  };
  static constexpr std::array kPhrases = {
      Phrase{200, "OK"},
      Phrase{204, "No Content"},
      Phrase{400, "Bad Request"},
      Phrase{401, "Unauthorized"},
      Phrase{404, "Not Found"},
      Phrase{405, "Method Not Allowed"},
      Phrase{408, "Request Timeout"},
      Phrase{413, "Content Too Large"},
      Phrase{415, "Unsupported Media Type"},
      Phrase{431, "Request Header Fields Too Large"},
      Phrase{499, "Client Closed Request"},
      Phrase{500, "Internal Server Error"},
      Phrase{501, "Not Implemented"},
      Phrase{503, "Service Unavailable"},
  };
  for (const Phrase& phrase : kPhrases) {
    if (phrase.status == status) return phrase.text;
  }
  return "Unknown";
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string percent_decode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

std::optional<std::string_view> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    if (part.starts_with(name) && part.substr(name.size(), 1) == "=") return part.substr(name.size() + 1);
  }
  return std::nullopt;
}

bool is_json_content_type(std::string_view value) {
  const std::string_view type = trimmed(value.substr(0, value.find(';')));
  return equal_ignoring_case(type, "application/json") ||
         (type.size() > 5 && equal_ignoring_case(type.substr(type.size() - 5), "+json"));
}

std::string for_log(std::string_view text, size_t limit) {
  std::string printable(text.substr(0, limit));
  for (char& c : printable) {
    if (c <= ' ' || c > '~' || c == '"' || c == '\\') c = '?';
  }
  if (text.size() > limit) printable += "...";
  return printable;
}

}  // namespace reprise::server
