#include <nlohmann/json.hpp>
#include <utility>

#include "server/chat_choice.h"
#include "server/chat_request.h"
#include "server/endpoints.h"
#include "server/openai_answer.h"
#include "server/token_logprobs.h"

namespace reprise::server {
namespace {

class ChatAnswer : public OpenAiAnswer {
 public:
  ChatAnswer(std::shared_ptr<Exchange> exchange, const ChatCompletionRequest& request, const text::Tokenizer& tokenizer)
      : OpenAiAnswer(std::move(exchange), request.answer, static_cast<size_t>(request.sampling.choices),
                     static_cast<int64_t>(request.prompt.ids.size())),
        parser_(request.parser),
        top_logprobs_(request.top_logprobs),
        tokenizer_(tokenizer) {
    for (int32_t i = 0; i < request.sampling.choices; ++i) {
      streams_.push_back(std::make_unique<ChatChoiceStream>(ChatChoiceStream::Options{
          request.parser, request.stream_reasoning, fmt::format("{}{}", request.answer.id, i == 0 ? "" : suffix(i))}));
    }
  }

 protected:
  void begin_choice(size_t choice) override { add(choice, R"({"role":"assistant","content":""})", "null", nullptr); }

  void stream_event(const ChoiceEvent& event) override {
    ChatChoiceStream& stream = *streams_[event.choice];
    std::vector<std::string> deltas = stream.push(event.text, event.output != nullptr);
    std::string logprobs = "null";
    if (top_logprobs_ && event.token && event.logprobs) {
      logprobs = to_text({{"content", Json::array({chat_logprob(tokenizer_, *event.logprobs)})}, {"refusal", nullptr}});
      // Text and tokens do not end at the same places: a token may come without text of its own.
      if (deltas.empty()) deltas.emplace_back(R"({"content":""})");
    }
    for (const std::string& delta : deltas) add(event.choice, delta, std::exchange(logprobs, "null"), nullptr);
    if (event.output) add(event.choice, "{}", "null", event.output.get());
  }

  Json choice_json(size_t choice, const engine::RequestOutput& output) override {
    const text::AssistantMessage message = text::AssistantParser::parse(output.text, parser_);
    Json json = {{"index", choice},
                 {"message", chat_message(message, call_base(choice))},
                 {"logprobs", nullptr},
                 {"finish_reason", finish_of(output, !message.calls.empty())},
                 {"matched_stop", matched_stop(output)}};
    if (top_logprobs_) {
      Json content = Json::array();
      for (const engine::PositionLogprobs& position : output.logprobs) {
        content.push_back(chat_logprob(tokenizer_, position));
      }
      json["logprobs"] = {{"content", std::move(content)}, {"refusal", nullptr}};
    }
    return json;
  }

 private:
  static std::string suffix(int32_t choice) { return fmt::format("_{}", choice); }
  std::string call_base(size_t choice) const {
    return fmt::format("{}{}", options().id, choice == 0 ? "" : suffix(static_cast<int32_t>(choice)));
  }
  static std::string finish_of(const engine::RequestOutput& output, bool calls) {
    return calls && output.finish == engine::FinishReason::kStop ? "tool_calls" : std::string(finish_text(output));
  }

  void add(size_t choice, std::string_view delta, std::string_view logprobs, const engine::RequestOutput* output) {
    std::string body = fmt::format("\"delta\":{},\"logprobs\":{},", delta, logprobs);
    if (output == nullptr) {
      body += R"("finish_reason":null,"matched_stop":null)";
    } else {
      body += fmt::format(R"("finish_reason":"{}","matched_stop":{})",
                          finish_of(*output, streams_[choice]->has_calls()), to_text(matched_stop(*output)));
    }
    add_chunk(choice, body);
  }

  const text::AssistantParserOptions parser_;
  const std::optional<int32_t> top_logprobs_;
  const text::Tokenizer tokenizer_;
  std::vector<std::unique_ptr<ChatChoiceStream>> streams_;
};

void chat(const ApiContext& context, const HttpRequest& http, const std::shared_ptr<Exchange>& exchange) {
  const auto arrival = std::chrono::steady_clock::now();
  context.require_ready();
  const ChatCompletionRequest request = read_chat_request(context, parse_json_body(http.body), http.unique_id);
  std::vector<engine::Request> requests;
  for (int32_t i = 0; i < request.sampling.choices; ++i) {
    requests.push_back(
        make_engine_request(request.prompt.ids, request.sampling, i, request.scheduling, request.answer.id));
  }
  std::vector<std::vector<std::string>> names(requests.size(), {request.answer.id});
  Generation::start(context.generation_host(), exchange, std::move(requests), std::move(names),
                    std::make_unique<ChatAnswer>(exchange, request, context.tokenizer()), arrival);
}

}  // namespace

void add_chat_endpoint(Router& router, ApiContext& context) {
  router.add({"POST"}, "/v1/chat/completions",
             {.handler = [&context](const HttpRequest& request,
                                    const std::shared_ptr<Exchange>& exchange) { chat(context, request, exchange); },
              .kind = RouteKind::kWork,
              .json_body = true});
}

}  // namespace reprise::server
