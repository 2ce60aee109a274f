#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/endpoints.h"
#include "server/json.h"
#include "server/request_error.h"

namespace reprise::server {
namespace {

/// The index behind "after=" in a query; -1 without one.
int64_t after_index(std::string_view query) {
  constexpr std::string_view kName = "after=";
  if (query.empty()) return -1;
  int64_t index = -1;
  const std::string_view digits = query.starts_with(kName) ? query.substr(kName.size()) : std::string_view();
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (fault != std::errc() || end != digits.data() + digits.size()) {
    throw RequestError::parameter_error("after", "The query must be after=INDEX.");
  }
  return index;
}

Json step_json(const engine::StepRecord& step) {
  return {{"index", step.index},
          {"kind", step.kind == replay::StepKind::kDecode ? "decode" : "prefill"},
          {"reason", replay::name_of(step.reason)},
          {"replayed", step.replayed},
          {"sequences", step.sequences},
          {"tokens", step.tokens},
          {"bucket", step.bucket},
          {"milliseconds", step.milliseconds},
          {"gap_milliseconds", step.gap_milliseconds}};
}

void state(const ApiContext& context, const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  const int64_t after = after_index(request.query);
  const engine::ServiceSnapshot snapshot = context.service.snapshot();
  Json json = {{"state", engine::name_of(snapshot.state)},
               {"model", context.model.name},
               {"mode", replay::name_of(snapshot.mode)},
               {"running", snapshot.running},
               {"waiting", snapshot.waiting},
               {"kv_tokens_used", snapshot.kv_tokens_used},
               {"kv_tokens_cached", snapshot.kv_tokens_cached},
               {"kv_tokens_capacity", snapshot.kv_tokens_capacity},
               {"generated_tokens", context.metrics->generated_tokens.load()},
               {"tokens_per_second", snapshot.generated_tokens_per_second},
               {"gap_milliseconds_median", snapshot.gap_milliseconds_median},
               {"captures", snapshot.captures},
               {"recaptures", snapshot.recaptures},
               {"graph_bytes", snapshot.graph_bytes},
               {"arena_bytes", snapshot.arena_bytes}};
  Json& steps = json["steps"] = Json::array();
  for (const engine::StepRecord& step : context.service.step_records(after)) steps.push_back(step_json(step));
  exchange->respond({.status = 200, .body = to_text(json), .headers = {}});
}

}  // namespace

void add_state_endpoint(Router& router, ApiContext& context) {
  router.add({"GET"}, "/state",
             {.handler = [&context](const HttpRequest& request,
                                    const std::shared_ptr<Exchange>& exchange) { state(context, request, exchange); },
              .kind = RouteKind::kQuick});
}

}  // namespace reprise::server
