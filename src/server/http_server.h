#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/gateway.h"

namespace reprise::server {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int32_t port = 30000;  ///< 0: any free one
  int32_t threads = 2;   ///< that read, write and answer quick routes
  int32_t workers = 2;   ///< that run the other handlers
  size_t max_connections = 8192;
  size_t max_header_bytes = 32 << 10;
  size_t max_body_bytes = size_t{16} << 20;
  /// A client that takes nothing for a second while more of its stream than this waits is given up. What the system
  /// buffers comes on top.
  size_t max_unread_bytes = 256 << 10;
  std::chrono::milliseconds header_timeout{10'000};  ///< from the first byte to the end of the head
  std::chrono::milliseconds body_timeout{60'000};    ///< from there to the end of the body
  std::chrono::milliseconds idle_timeout{75'000};    ///< between two requests of a connection
  std::chrono::milliseconds write_timeout{30'000};   ///< for the client to take anything at all
  bool access_log = false;                           ///< a line for each request: who, what, status, bytes, time
};

/// What connections have come to, for metrics.
struct HttpCounters {
  int64_t open_connections = 0;
  int64_t accepted_connections = 0;
  int64_t requests = 0;      ///< whose heads were read
  int64_t given_up = 0;      ///< streams whose clients did not read
  int64_t clients_gone = 0;  ///< before their answers were complete
};

/// An HTTP/1.1 server. It binds when it is made. Thread-safe. It must outlive whoever answers
/// exchanges.
class HttpServer {
 public:
  /// Throws kIo when it cannot listen there, kInvalidArgument for options out of range.
  HttpServer(std::shared_ptr<const Gateway> gateway, const HttpServerOptions& options);
  /// Stops without waiting for answers.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Accepts from here on.
  void start();
  uint16_t port() const;
  std::string url() const;  ///< "http://127.0.0.1:30000"
  HttpCounters counters() const;
  /// Runs a task on the threads of the server, one after the other in the order in which they were posted.
  void post(std::function<void()> task);
  /// The same after some time.
  void post_after(std::chrono::milliseconds time, std::function<void()> task);
  /// Runs a task on a worker, beside others.
  void work(std::function<void()> task);
  /// Accepts nothing more, lets answers that have begun, and those of requests that have been read, end until `limit`
  /// is over, and closes every connection. Returns when all is done.
  void stop(std::chrono::milliseconds limit);

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace reprise::server
