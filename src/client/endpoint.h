#pragma once

#include <string>
#include <string_view>

namespace reprise::client {

/// Where a server listens. Plain HTTP only: encryption is left to a proxy.
struct Endpoint {
  std::string host;
  std::string port;
  std::string prefix;  ///< of every target: "" or "/some/path", without a slash at the end

  /// Reads "http://HOST[:PORT][/PREFIX]" or "HOST[:PORT]"; port 80 when there is none, an IPv6 host in brackets.
  /// kUnsupported for https, kInvalidArgument for anything else.
  static Endpoint parse(std::string_view base_url);

  /// "HOST:PORT" as a request's Host header has it.
  std::string authority() const;
  /// "http://HOST:PORT/PREFIX".
  std::string url() const { return "http://" + authority() + prefix; }
};

}  // namespace reprise::client
