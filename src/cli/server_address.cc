#include "cli/server_address.h"

#include <cstdlib>

#include "base/error.h"

namespace reprise::cli {

void ServerAddress::add(CommandLine& command) {
  command.option("--host", host, "where the server listens");
  command.option("--port", port, "its port");
  add_optional(command);
}

void ServerAddress::add_optional(CommandLine& command) {
  command.option("--base-url", base_url, "the server, http://HOST:PORT");
  command.option("--api-key", api_key, "sent as a bearer token; without: OPENAI_API_KEY, if it is set");
  command.option("--timeout", timeout, "most seconds without a byte from the server");
}

std::string ServerAddress::url() const {
  const bool bracket = host.find(':') != std::string::npos && !host.starts_with('[');
  return base_url.empty() ? fmt::format("http://{}:{}", bracket ? "[" + host + "]" : host, port) : base_url;
}

std::unique_ptr<client::HttpLoop> ServerAddress::connect() const {
  // Up to a week: more is no use, and would not fit into every clock.
  if (!(timeout > 0 && timeout <= 604800)) {
    throw Error(ErrorCode::kInvalidArgument, "--timeout is {}, must be above 0 and at most 604800", timeout);
  }
  client::HttpOptions options;
  options.api_key = api_key;
  if (const char* key = std::getenv("OPENAI_API_KEY"); key != nullptr && api_key.empty()) options.api_key = key;
  options.idle_timeout = std::chrono::milliseconds(static_cast<int64_t>(timeout * 1000));
  return std::make_unique<client::HttpLoop>(client::Endpoint::parse(url()), std::move(options));
}

}  // namespace reprise::cli
