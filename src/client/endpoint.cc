#include "client/endpoint.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace reprise::client {
namespace {

[[noreturn]] void refuse(std::string_view url, std::string_view why) {
  throw Error(ErrorCode::kInvalidArgument, "the server's address '{}' {}", url, why).remedy("write http://HOST:PORT");
}

void check_port(std::string_view url, std::string_view port) {
  int number = 0;
  const auto [end, fault] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (fault != std::errc() || end != port.data() + port.size() || number < 1 || number > 65535) {
    refuse(url, "has no port from 1 to 65535");
  }
}

}  // namespace

Endpoint Endpoint::parse(std::string_view base_url) {
  std::string_view rest = base_url;
  if (rest.starts_with("https://")) {
    throw Error(ErrorCode::kUnsupported, "'{}': this client speaks plain HTTP only", base_url)
        .remedy("give the address behind the proxy that ends TLS");
  }
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  const auto is_bad = [](unsigned char c) { return c <= ' ' || c == 127 || c == '?' || c == '#' || c == '@'; };
  if (std::any_of(rest.begin(), rest.end(), is_bad)) refuse(base_url, "has a character that cannot stand there");

  Endpoint endpoint;
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view prefix = rest.substr(slash);
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  endpoint.prefix = prefix;
  std::string_view authority = rest.substr(0, slash);
  std::string_view port = "80";
  size_t colon = authority.rfind(':');
  if (authority.starts_with('[')) {
    const size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) refuse(base_url, "has an open bracket");
    endpoint.host = authority.substr(1, bracket - 1);
    colon = bracket + 1 < authority.size() ? bracket + 1 : std::string_view::npos;
    if (colon != std::string_view::npos && authority[colon] != ':') refuse(base_url, "has text behind its bracket");
  } else {
    endpoint.host = authority.substr(0, colon);
    if (endpoint.host.find(':') != std::string::npos) refuse(base_url, "has an IPv6 host without brackets");
  }
  if (colon != std::string_view::npos) port = authority.substr(colon + 1);
  if (endpoint.host.empty()) refuse(base_url, "has no host");
  check_port(base_url, port);
  endpoint.port = port;
  return endpoint;
}

std::string Endpoint::authority() const {
  const bool bracket = host.find(':') != std::string::npos;
  return (bracket ? "[" + host + "]" : host) + ":" + port;
}

}  // namespace reprise::client
