#include <nlohmann/json.hpp>
#include <utility>

#include "server/endpoints.h"
#include "server/error_response.h"
#include "server/json.h"
#include "server/request_fields.h"

namespace reprise::server {
namespace {

HttpResponse text_response(int status, std::string text) {
  return {.status = status, .body = std::move(text), .content_type = "text/plain; charset=utf-8", .headers = {}};
}

void abort_request(const ApiContext& context, const HttpRequest& http, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_json_body(http.body);
  RequestFields fields(body);
  const std::string name = fields.text("rid").value_or("");
  const bool all = fields.boolean("abort_all", false);
  fields.finish();
  for (const engine::RequestId id : all ? context.live->all() : context.live->find_by_prefix(name)) {
    context.service.cancel(id);
  }
  exchange->respond(text_response(200, ""));
}

/// Answers when a task of the engine's thread is done, or given up.
class TaskAnswer {
 public:
  explicit TaskAnswer(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~TaskAnswer() { exchange_->respond(error_response(503, "The engine has ended.")); }
  void respond(HttpResponse response) const { exchange_->respond(std::move(response)); }

 private:
  const std::shared_ptr<Exchange> exchange_;
};

constexpr std::string_view kFlushNote =
    "Please check backend logs for more details. (When there are running or waiting requests, the operation will not "
    "be performed.)\n";

void flush_cache(const ApiContext& context, const HttpRequest& /*http*/, const std::shared_ptr<Exchange>& exchange) {
  context.require_ready();
  const auto answer = std::make_shared<TaskAnswer>(exchange);
  static_cast<void>(context.service.run([answer](engine::Engine& engine) {
    const bool idle = engine.open_requests() == 0;
    if (idle) engine.flush_prefix_cache();
    answer->respond(
        text_response(idle ? 200 : 400, fmt::format("Cache {}flushed.\n{}", idle ? "" : "not ", kFlushNote)));
  }));
}

void profile(const ApiContext& /*context*/, const HttpRequest& http, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond(error_response(501, fmt::format("{} is not built yet.", http.path), {}, "not_built"));
}

}  // namespace

void add_control_endpoints(Router& router, ApiContext& context) {
  const auto route = [&context](auto handle, bool json_body) {
    return Route{.handler = [&context, handle](
                                const HttpRequest& request,
                                const std::shared_ptr<Exchange>& exchange) { handle(context, request, exchange); },
                 .kind = RouteKind::kWork,
                 .json_body = json_body};
  };
  router.add({"POST"}, "/abort_request", route(abort_request, true));
  router.add({"GET", "POST"}, "/flush_cache", route(flush_cache, false));
  router.add({"GET", "POST"}, "/start_profile", route(profile, false));
  router.add({"GET", "POST"}, "/stop_profile", route(profile, false));
}

}  // namespace reprise::server
