#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "server/api_context.h"

namespace reprise::server {

/// The HTTP interfaces of an engine. It binds when it is made, and answers from then on, whatever the engine's state.
class ApiServer {
 public:
  /// `service` must outlive the server's stop() or destruction; its callbacks may come later. Throws what HttpServer
  /// throws.
  ApiServer(engine::EngineService& service, ServedModel model, ApiOptions options);
  /// stop() without waiting.
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  uint16_t port() const { return http_->port(); }
  std::string url() const { return http_->url(); }
  HttpCounters http_counters() const { return http_->counters(); }
  const ServerMetrics& metrics() const { return *context_->metrics; }

  /// Lets requests end, and their answers reach their clients, within `limit` while new ones are refused with 503; then
  /// cancels the rest, gives what they came to two seconds more, and closes.
  void drain(std::chrono::milliseconds limit);
  /// Accepts nothing more and closes every connection, at the latest when `limit` is over.
  void stop(std::chrono::milliseconds limit);

 private:
  std::unique_ptr<ApiContext> context_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace reprise::server
