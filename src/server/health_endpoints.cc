#include <fmt/format.h>

#include "server/endpoints.h"
#include "server/error_response.h"
#include "server/json.h"
#include "server/request_error.h"

namespace reprise::server {
namespace {

/// Looks at the snapshot alone: neither the engine's loop nor other clients can make it wait.
HttpResponse health(const ApiContext& context, const HttpRequest& /*request*/) {
  const engine::ServiceSnapshot snapshot = context.service.snapshot();
  if (snapshot.state != engine::ServiceState::kReady) {
    return error_response(503, fmt::format("The server is not ready: {}.", engine::name_of(snapshot.state)), {},
                          engine::name_of(snapshot.state));
  }
  const auto silent = std::chrono::steady_clock::now() - snapshot.heartbeat;
  if (silent > context.options.health_timeout) {
    const double seconds = std::chrono::duration<double>(silent).count();
    return error_response(503, fmt::format("The engine was not seen for {:.1f} s.", seconds), {}, "wedged");
  }
  return {.status = 200, .body = "", .content_type = "text/plain; charset=utf-8", .headers = {}};
}

HttpResponse metrics(const ApiContext& context, const HttpRequest& request) {
  const std::string_view names = query_value(request.query, "names").value_or("sglang");
  if (names != "sglang" && names != "plain") {
    throw RequestError::parameter_error("names",
                                        fmt::format("names must be sglang or plain, got {}.", quote_text(names)));
  }
  const HttpCounters http = context.http != nullptr ? context.http->counters() : HttpCounters{};
  return {
      .status = 200,
      .body = metrics_text(*context.metrics, context.service.snapshot(), http, context.model.name, names == "plain"),
      .content_type = "text/plain; version=0.0.4; charset=utf-8",
      .headers = {}};
}

}  // namespace

void add_health_endpoints(Router& router, ApiContext& context) {
  const auto quick = [&context](auto answer) {
    return Route{.handler =
                     [&context, answer](const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
                       exchange->respond(answer(context, request));
                     },
                 .kind = RouteKind::kQuick};
  };
  router.add({"GET"}, "/health", quick(health));
  router.add({"GET"}, "/health_generate", quick(health));
  router.add({"GET"}, "/metrics", quick(metrics));
  router.add({"GET"}, "/ping", quick([](const ApiContext&, const HttpRequest&) {
               return HttpResponse{
                   .status = 200, .body = "", .content_type = "text/plain; charset=utf-8", .headers = {}};
             }));
}

}  // namespace reprise::server
