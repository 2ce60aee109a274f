#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "server/gateway.h"
#include "server/http_server.h"

namespace boost::asio {
class io_context;
}

namespace reprise::server {

/// A live connection, as the server sees it. Thread-safe.
class ConnectionControl {
 public:
  virtual ~ConnectionControl() = default;
  /// Ends the connection: at once when it is between requests or `now`, else with the answer under way.
  virtual void end(bool now) = 0;
};

/// What all connections of a server share.
struct ConnectionHost {
  HttpServerOptions options;
  std::shared_ptr<const Gateway> gateway;
  /// Runs a task on a worker; false when there are no workers any more.
  std::function<void(std::function<void()>)> work;

  std::atomic<bool> ending{false};
  std::atomic<int64_t> accepted{0};
  std::atomic<int64_t> requests{0};
  std::atomic<int64_t> given_up{0};
  std::atomic<int64_t> clients_gone{0};

  std::mutex mutex;
  std::unordered_map<const void*, std::weak_ptr<ConnectionControl>> connections;
};

/// Takes over a connected socket and serves it until it ends.
void serve_connection(boost::asio::io_context& context, int native_socket, bool is_v6, std::string peer,
                      const std::shared_ptr<ConnectionHost>& host);

}  // namespace reprise::server
