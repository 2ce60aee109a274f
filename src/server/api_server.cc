#include "server/api_server.h"

#include <algorithm>

#include "server/endpoints.h"

namespace reprise::server {
namespace {

/// For answers that ended at the limit to reach their clients.
constexpr std::chrono::milliseconds kLastWrites{2000};

}  // namespace

ApiServer::ApiServer(engine::EngineService& service, ServedModel model, ApiOptions options)
    : context_(std::make_unique<ApiContext>(service, std::move(model), std::move(options))) {
  Router router;
  add_health_endpoints(router, *context_);
  add_model_endpoints(router, *context_);
  add_state_endpoint(router, *context_);
  add_completion_endpoint(router, *context_);
  add_chat_endpoint(router, *context_);
  add_generate_endpoint(router, *context_);
  add_token_endpoints(router, *context_);
  add_control_endpoints(router, *context_);
  add_page_endpoint(router, *context_);
  http_ = std::make_unique<HttpServer>(std::make_shared<Gateway>(std::move(router), context_->options.access),
                                       context_->options.http);
  context_->http = http_.get();
  const auto post = [http = http_.get()](std::function<void()> task) { http->post(std::move(task)); };
  const auto post_after = [http = http_.get()](std::chrono::milliseconds time, std::function<void()> task) {
    http->post_after(time, std::move(task));
  };
  const auto work = [http = http_.get()](std::function<void()> task) { http->work(std::move(task)); };
  context_->relay =
      std::make_shared<EventRelay>(EventRelay::Executor{post, post_after, work}, context_->options.gather_time);
  service.on_turn_end([relay = context_->relay] { relay->end_turn(); });
  http_->start();
}

ApiServer::~ApiServer() {
  context_->service.on_turn_end({});
  stop(std::chrono::milliseconds(0));
}

void ApiServer::drain(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  context_->service.drain(limit);
  // The engine may have ended long before clients have read what it gave.
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  stop(std::max(left, std::chrono::milliseconds(0)) + kLastWrites);
}

void ApiServer::stop(std::chrono::milliseconds limit) {
  http_->stop(limit);
  context_->relay->close();
}

}  // namespace reprise::server
