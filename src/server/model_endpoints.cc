#include <nlohmann/json.hpp>
#include <utility>

#include "server/endpoints.h"
#include "server/error_response.h"
#include "server/json.h"
#include "server/request_error.h"

namespace reprise::server {
namespace {

HttpResponse json_response(const Json& json) { return {.status = 200, .body = to_text(json), .headers = {}}; }

Json model_json(const ApiContext& context) {
  const engine::ServiceInfo* info = context.service.info();
  return {{"id", context.model.name},
          {"object", "model"},
          {"created", context.created},
          {"owned_by", "reprise"},
          {"root", context.model.name},
          {"parent", nullptr},
          {"max_model_len", info != nullptr ? Json(context.max_context()) : Json()}};
}

HttpResponse models(const ApiContext& context, const HttpRequest& /*request*/) {
  return json_response({{"object", "list"}, {"data", Json::array({model_json(context)})}});
}

HttpResponse model(const ApiContext& context, const HttpRequest& request) {
  const std::string name =
      percent_decode(std::string_view(request.path).substr(std::string_view("/v1/models/").size()));
  if (name != context.model.name) {
    return error_response(404, fmt::format("The model {} does not exist", quote_text(name)), "model",
                          "model_not_found");
  }
  return json_response(model_json(context));
}

HttpResponse model_info(const ApiContext& context, const HttpRequest& /*request*/) {
  return json_response({{"model_path", context.model.path},
                        {"tokenizer_path", context.model.path},
                        {"is_generation", true},
                        {"preferred_sampling_params", nullptr},
                        {"weight_version", "default"}});
}

HttpResponse server_info(const ApiContext& context, const HttpRequest& /*request*/) {
  const engine::ServiceSnapshot snapshot = context.service.snapshot();
  Json json = Json::parse(context.options.server_info);
  json["served_model_name"] = context.model.name;
  json["model_path"] = context.model.path;
  json["version"] = context.options.version;
  json["status"] = engine::name_of(snapshot.state);
  Json state = {{"last_gen_throughput", snapshot.generated_tokens_per_second},
                {"avg_spec_accept_length", nullptr},
                {"memory_usage",
                 {{"token_capacity", snapshot.kv_tokens_capacity},
                  {"graph", static_cast<double>(snapshot.graph_bytes + snapshot.arena_bytes) / (1 << 30)}}}};
  if (const engine::ServiceInfo* info = context.service.info()) {
    json["max_total_num_tokens"] = info->kv_tokens_capacity;
    json["max_req_input_len"] = context.max_context() - 1;
    json["context_len"] = info->options.max_context;
    json["page_size"] = info->options.page_size;
    json["architecture"] = info->model.architecture;
    json["vocab_size"] = info->model.vocabulary;
    json["decode_mode"] = replay::name_of(snapshot.mode);
    json["graph_batch_sizes"] = info->graph_batch_sizes;
    state["memory_usage"]["kvcache"] = static_cast<double>(info->kv_bytes) / (1 << 30);
    state["effective_max_running_requests_per_dp"] = info->options.max_running;
  }
  json["internal_states"] = Json::array({std::move(state)});
  return json_response(json);
}

}  // namespace

void add_model_endpoints(Router& router, ApiContext& context) {
  const auto quick = [&context](auto answer) {
    return Route{.handler =
                     [&context, answer](const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
                       exchange->respond(answer(context, request));
                     },
                 .kind = RouteKind::kQuick};
  };
  router.add({"GET"}, "/v1/models", quick(models));
  router.add({"GET"}, "/v1/models/*", quick(model));
  router.add({"GET"}, "/get_model_info", quick(model_info));
  router.add({"GET"}, "/get_server_info", quick(server_info));
}

}  // namespace reprise::server
