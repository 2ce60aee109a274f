#include <nlohmann/json.hpp>
#include <utility>

#include "server/endpoints.h"
#include "server/native_answer.h"
#include "server/native_request.h"

namespace reprise::server {
namespace {

void generate(const ApiContext& context, const HttpRequest& http, const std::shared_ptr<Exchange>& exchange) {
  const auto arrival = std::chrono::steady_clock::now();
  context.require_ready();
  GenerateRequest request = read_generate_request(context, parse_json_body(http.body), http.unique_id);
  std::vector<engine::Request> requests;
  std::vector<std::vector<std::string>> names;
  for (const GenerateItem& item : request.items) {
    for (int32_t i = 0; i < item.sampling.choices; ++i) {
      const std::vector<std::string>& own = names.emplace_back(item.names_of(i));
      engine::Request one = make_engine_request(item.prompt.ids, item.sampling, i, request.scheduling, own.front());
      if (item.logprobs && item.logprob_start >= 0) {
        one.prompt_logprobs = item.top_logprobs;
        one.prompt_logprobs_start = item.logprob_start;
      }
      requests.push_back(std::move(one));
    }
  }
  auto answer = std::make_unique<NativeAnswer>(exchange, std::move(request), context.tokenizer(),
                                               context.options.incremental_streams, arrival);
  Generation::start(context.generation_host(), exchange, std::move(requests), std::move(names), std::move(answer),
                    arrival);
}

}  // namespace

void add_generate_endpoint(Router& router, ApiContext& context) {
  router.add(
      {"POST", "PUT"}, "/generate",
      {.handler = [&context](const HttpRequest& request,
                             const std::shared_ptr<Exchange>& exchange) { generate(context, request, exchange); },
       .kind = RouteKind::kWork,
       .json_body = true});
}

}  // namespace reprise::server
