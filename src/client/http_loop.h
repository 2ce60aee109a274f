#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "client/endpoint.h"

namespace reprise::client {

using Clock = std::chrono::steady_clock;

struct HttpRequest {
  std::string method = "GET";
  std::string target;  ///< "/v1/models"; the endpoint's prefix comes before it
  std::string body;    ///< JSON unless `headers` say otherwise; empty: none
  std::vector<std::pair<std::string, std::string>> headers = {};
};

struct HttpResponse {
  int status = 0;
  std::string body;
  bool is_success() const { return status >= 200 && status < 300; }
};

struct HttpOptions {
  std::string api_key;                               ///< sent as "Authorization: Bearer KEY"; empty: none
  std::chrono::milliseconds connect_timeout{30000};  ///< also for looking the host up
  /// Longest time without a byte from the server, which may have a request queued.
  std::chrono::milliseconds idle_timeout{600000};
};

/// Receives what comes back for one request, on the thread that runs the loop. What a member throws ends the exchange
/// with that error.
class HttpReceiver {
 public:
  virtual ~HttpReceiver() = default;
  /// The response's head, once.
  virtual void on_status(int status, std::string_view content_type) = 0;
  /// A part of the body and when it came.
  virtual void on_body(std::string_view bytes, Clock::time_point at) = 0;
  /// The last call, exactly once: with null when the response is complete, else with what went wrong (kIo,
  /// kCorruptData, kCancelled, or what a receiver threw). Must not throw.
  virtual void on_end(const Error* error, Clock::time_point at) = 0;
};

/// Any number of HTTP/1.1 exchanges with one server, all on one thread: no exchange waits for another, and each has a
/// connection of its own, so that what one does is not seen in another's times. Not thread-safe.
class HttpLoop {
 public:
  /// Looks the host up: kNotFound when there is none of that name.
  explicit HttpLoop(const Endpoint& endpoint, HttpOptions options = {});
  /// Exchanges that have not ended are dropped without a word to their receivers.
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  /// Calls `function` from run() at a time, or as soon as it can when that has passed.
  void at(Clock::time_point when, std::function<void()> function);
  /// Begins an exchange; nothing happens before run().
  void start(HttpRequest request, std::shared_ptr<HttpReceiver> receiver);
  /// Returns when nothing is left to do. Throws what a function of at() threw.
  void run();
  /// Called from within run(): ends all exchanges with kCancelled, and drops what waits for its time.
  void cancel();

  /// One exchange from start to end, by itself. Throws what went wrong below HTTP; any status is a response. Bodies
  /// above 256 MiB: kCorruptData. Not to be called from within run().
  HttpResponse fetch(HttpRequest request);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace reprise::client
