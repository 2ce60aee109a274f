#include "server/response_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>

namespace reprise::server {
namespace {

bool is_id_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[64];
  const size_t length = std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text, length};
}

}  // namespace

std::string compose_response(const HttpResponse& response, const HttpHeaders& common, const ResponseForm& form,
                             bool with_body) {
  std::string wire = fmt::format("HTTP/1.1 {} {}\r\nServer: reprise\r\nDate: {}\r\n", response.status,
                                 reason_phrase(response.status), http_date());
  wire.reserve(wire.size() + response.body.size() + 512);
  if (form.chunked) {
    wire += "Transfer-Encoding: chunked\r\n";
  } else if (response.status != 204 && !form.until_close) {
    wire += fmt::format("Content-Length: {}\r\n", response.body.size());
  }
  if (response.status != 204) wire += fmt::format("Content-Type: {}\r\n", response.content_type);
  // Proxies would hold events back otherwise.
  if (response.content_type == "text/event-stream") wire += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  for (const HttpHeaders* headers : {&common, &response.headers}) {
    for (const auto& [name, value] : *headers) wire += fmt::format("{}: {}\r\n", name, value);
  }
  wire += form.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  if (with_body && !form.chunked) wire += response.body;
  return wire;
}

void append_chunk(std::string& wire, std::string_view bytes, bool end) {
  if (!bytes.empty()) {
    wire += fmt::format("{:x}\r\n", bytes.size());
    wire += bytes;
    wire += "\r\n";
  }
  if (end) wire += "0\r\n\r\n";
}

std::optional<std::string> proper_request_id(std::string_view from_client) {
  const bool proper = !from_client.empty() && from_client.size() <= 128 &&
                      std::all_of(from_client.begin(), from_client.end(), is_id_character);
  return proper ? std::optional(std::string(from_client)) : std::nullopt;
}

std::string new_request_id() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{:016x}{:016x}", random(), random());
}

}  // namespace reprise::server
