#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "server/http_server.h"
#include "server/raw_client.h"

namespace reprise::server {

/// A server with a few routes; what streams are open can be reached by the test.
class HttpServerTest : public testing::Test {
 protected:
  void start(HttpServerOptions options = {}, const AccessOptions& access = {}) {
    Router router;
    router.add(
        {"GET"}, "/health",
        {.handler = [](const HttpRequest&,
                       const auto& exchange) { exchange->respond({.status = 200, .body = "{}", .headers = {}}); },
         .kind = RouteKind::kQuick});
    router.add({"POST"}, "/echo",
               {.handler =
                    [](const HttpRequest& request, const auto& exchange) {
                      exchange->respond({.status = 200, .body = request.body, .headers = {}});
                    },
                .json_body = true});
    router.add({"POST"}, "/size", {.handler = [](const HttpRequest& request, const auto& exchange) {
                 exchange->respond({.body = std::to_string(request.body.size()), .headers = {}});
               }});
    router.add({"POST"}, "/throw", {.handler = [](const HttpRequest&, const auto&) {
                 throw Error(ErrorCode::kInvalidArgument, "no such thing");
               }});
    router.add({"POST"}, "/stream", {.handler = [this](const HttpRequest&, const auto& exchange) {
                 exchange->begin_stream("text/event-stream");
                 keep(exchange);
               }});
    router.add({"POST"}, "/later", {.handler = [this](const HttpRequest&, const auto& exchange) { keep(exchange); }});
    router.add({"GET"}, "/id", {.handler = [](const HttpRequest& request, const auto& exchange) {
                 exchange->respond({.body = request.unique_id, .headers = {}});
               }});
    router.add({"GET"}, "/models/*", {.handler = [](const HttpRequest& request, const auto& exchange) {
                 exchange->respond({.body = request.path, .headers = {}});
               }});
    options.port = 0;
    server_ = std::make_unique<HttpServer>(std::make_shared<Gateway>(std::move(router), access), options);
    server_->start();
  }

  void keep(const std::shared_ptr<Exchange>& exchange) {
    exchange->on_gone([this] { ++gone_; });
    const std::lock_guard lock(mutex_);
    exchanges_.push_back(exchange);
  }
  std::shared_ptr<Exchange> exchange(size_t index = 0) {
    for (int i = 0; i < 1000; ++i) {
      {
        const std::lock_guard lock(mutex_);
        if (exchanges_.size() > index) return exchanges_[index];
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "the handler was not called";
    return nullptr;
  }
  bool wait_for_gone(int count) const {
    for (int i = 0; i < 1000 && gone_ < count; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return gone_ == count;
  }
  uint16_t port() const { return server_->port(); }
  static std::string post(std::string_view path, std::string_view body, std::string_view more = "") {
    return fmt::format(
        "POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}", path,
        body.size(), more, body);
  }
  static constexpr std::string_view kHealth = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";

  std::mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> exchanges_;
  std::atomic<int> gone_{0};
  std::unique_ptr<HttpServer> server_;
};

}  // namespace reprise::server
