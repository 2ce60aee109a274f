#pragma once

#include <memory>
#include <string>

#include "cli/command_line.h"
#include "client/http_loop.h"

namespace reprise::cli {

/// Where a command finds its server.
struct ServerAddress {
  std::string base_url;
  std::string host = "127.0.0.1";
  int32_t port = 30000;
  std::string api_key;
  double timeout = 600;

  void add(CommandLine& command);
  /// The same for a command that asks a server only when it is given one: with --base-url.
  void add_optional(CommandLine& command);
  /// Throws for an address that is none, and for a host that is not known.
  std::unique_ptr<client::HttpLoop> connect() const;
  std::string url() const;
};

}  // namespace reprise::cli
