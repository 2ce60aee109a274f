#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/endpoints.h"
#include "server/error_response.h"
#include "server/json.h"
#include "server/request_error.h"
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
  if (name.empty() && !all)
    throw RequestError::parameter_error("rid", "rid is missing or empty: name a request, or give abort_all.");
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

/// Runs `work` on the engine's thread and answers with the text that it gives.
void run_profile_task(const ApiContext& context, const std::shared_ptr<Exchange>& exchange,
                      std::function<std::string(engine::Engine&)> work) {
  context.require_ready();
  const auto answer = std::make_shared<TaskAnswer>(exchange);
  static_cast<void>(context.service.run([answer, work = std::move(work)](engine::Engine& engine) {
    try {
      answer->respond(text_response(200, work(engine)));
    } catch (const Error& error) {
      answer->respond(error_response(error.code() == ErrorCode::kFailedPrecondition ? 400 : 500, error.what()));
    }
  }));
}

/// The body may be missing. Where files are written is the operator's choice, not the client's.
void start_profile(const ApiContext& context, const HttpRequest& http, const std::shared_ptr<Exchange>& exchange) {
  const Json body = http.body.empty() ? Json::object() : parse_json_body(http.body);
  RequestFields fields(body);
  const int64_t steps = fields.integer("num_steps", 1).value_or(0);
  fields.refuse("output_dir", "profiles are written below the server's --profile-dir");
  fields.refuse("start_step", "a profile starts at once");
  fields.refuse("profile_by_stage", "prompt and decode steps are told apart by their names");
  fields.refuse("with_stack", "stacks are not recorded");
  fields.refuse("merge_profiles", "there is one process");
  // Host, device and memory are always recorded, with shapes.
  fields.ignore({"activities", "record_shapes"});
  fields.finish();
  const std::filesystem::path directory =
      context.options.profile_directory /
      fmt::format("profile-{}", std::chrono::system_clock::now().time_since_epoch().count());
  run_profile_task(context, exchange, [directory, steps](engine::Engine& engine) {
    engine.start_profile(directory, steps);
    return std::string("Start profiling.\n");
  });
}

void stop_profile(const ApiContext& context, const HttpRequest& /*http*/, const std::shared_ptr<Exchange>& exchange) {
  run_profile_task(context, exchange, [](engine::Engine& engine) { return engine.stop_profile(); });
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
  router.add({"GET", "POST"}, "/start_profile", route(start_profile, false));
  router.add({"GET", "POST"}, "/stop_profile", route(stop_profile, false));
}

}  // namespace reprise::server
