#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/endpoints.h"
#include "server/json.h"
#include "server/request_error.h"

namespace reprise::server {
namespace {

/// An integer of the query; `otherwise` when it is not there.
int64_t query_number(std::string_view query, std::string_view name, int64_t otherwise) {
  const std::optional<std::string_view> text = query_value(query, name);
  if (!text) return otherwise;
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (fault == std::errc() && end == text->data() + text->size()) return value;
  throw RequestError::parameter_error(std::string(name),
                                      fmt::format("{} must be an integer, got {}.", name, quote_text(*text)));
}

/// What is misspelled, or given twice, would be answered as if it had not been.
void check_query(std::string_view query) {
  bool has_after = false, has_limit = false;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    const std::string_view name = part.substr(0, part.find('='));
    if (part.empty()) continue;
    if (name != "after" && name != "limit") {
      const std::string quoted = quote_text(name);
      throw RequestError::parameter_error(quoted.substr(1, quoted.size() - 2),
                                          fmt::format("There is no parameter {}: there are after and limit.", quoted));
    }
    if (std::exchange(name == "after" ? has_after : has_limit, true)) {
      throw RequestError::parameter_error(std::string(name), fmt::format("{} is given twice.", name));
    }
  }
}

Json step_json(const engine::StepRecord& record) {
  return {{"index", record.index},
          {"kind", record.kind == replay::StepKind::kDecode ? "decode" : "prefill"},
          {"reason", replay::name_of(record.reason)},
          {"replayed", record.replayed},
          {"sequences", record.sequences},
          {"tokens", record.tokens},
          {"bucket", record.bucket},
          {"milliseconds", record.milliseconds},
          {"gap_milliseconds", record.gap_milliseconds}};
}

/// Steps of a kind by reason, without those that never came up.
Json counts_json(const replay::StepCounters& counters, replay::StepKind kind) {
  Json json = Json::object();
  for (size_t i = 0; i < replay::kStepReasons; ++i) {
    const auto reason = static_cast<replay::StepReason>(i);
    if (counters.steps(kind, reason) > 0) json[std::string(replay::name_of(reason))] = counters.steps(kind, reason);
  }
  return json;
}

/// Of the last step that there was, also when the client has seen it, or asks with an index of another server.
int64_t last_step_index(const ApiContext& context, const std::vector<engine::StepRecord>& records) {
  if (!records.empty()) return records.back().index;
  const std::vector<engine::StepRecord> all = context.service.step_records(-1);
  return all.empty() ? -1 : all.back().index;
}

/// What an operator looks at: the snapshot and the last steps.
HttpResponse state_response(const ApiContext& context, const HttpRequest& request) {
  check_query(request.query);
  const int64_t after = query_number(request.query, "after", -1);
  if (after < -1) throw RequestError::parameter_error("after", "after must be at least -1.");
  const int64_t limit = query_number(request.query, "limit", static_cast<int64_t>(engine::StepLog::kCapacity));
  if (limit < 0) throw RequestError::parameter_error("limit", "limit must not be negative.");
  std::vector<engine::StepRecord> records = context.service.step_records(after);
  const engine::ServiceSnapshot snapshot = context.service.snapshot();
  const engine::ServiceInfo* info = context.service.info();
  Json json = {{"state", engine::name_of(snapshot.state)},
               {"failure", snapshot.failure},
               {"model", context.model.name},
               {"chat", context.model.chat_template.has_value()},
               {"mode", replay::name_of(snapshot.mode)},
               {"running", snapshot.running},
               {"waiting", snapshot.waiting},
               {"max_running", info != nullptr ? Json(info->options.max_running) : Json()},
               {"kv_tokens_used", snapshot.kv_tokens_used},
               {"kv_tokens_cached", snapshot.kv_tokens_cached},
               {"kv_tokens_capacity", snapshot.kv_tokens_capacity},
               {"tokens_per_second", snapshot.generated_tokens_per_second},
               {"gap_milliseconds_median", snapshot.gap_milliseconds_median},
               {"captures", snapshot.captures},
               {"recaptures", snapshot.recaptures},
               {"capture_seconds", snapshot.capture_seconds},
               {"graph_bytes", snapshot.graph_bytes},
               {"arena_bytes", snapshot.arena_bytes},
               {"generated_tokens", snapshot.statistics.generated_tokens},
               {"cached_tokens", snapshot.statistics.cached_tokens},
               {"preemptions", snapshot.statistics.preemptions},
               {"prepared_steps", snapshot.statistics.prepared_steps},
               {"dropped_preparations", snapshot.statistics.dropped_preparations},
               {"finished_requests", snapshot.statistics.finished_requests},
               {"cancelled_requests", snapshot.statistics.cancelled_requests},
               {"failed_requests", snapshot.statistics.failed_requests}};
  json["step_counts"] = {{"decode", counts_json(snapshot.counters, replay::StepKind::kDecode)},
                         {"prefill", counts_json(snapshot.counters, replay::StepKind::kPrefill)}};
  // Asked again with it, the next answer goes on from here.
  json["last_index"] = last_step_index(context, records);
  if (records.size() > static_cast<size_t>(limit)) records.erase(records.begin(), records.end() - limit);
  json["steps"] = Json::array();
  for (const engine::StepRecord& record : records) json["steps"].push_back(step_json(record));
  HttpResponse response;
  response.body = to_text(json);
  response.headers = {{"Cache-Control", "no-store"}};
  return response;
}

}  // namespace

void add_state_endpoint(Router& router, ApiContext& context) {
  router.add({"GET"}, "/state",
             {.handler =
                  [&context](const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
                    exchange->respond(state_response(context, request));
                  },
              .kind = RouteKind::kQuick});
}

}  // namespace reprise::server
