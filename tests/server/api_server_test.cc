#include "server/api_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "engine/mini_engine.h"
#include "server/raw_client.h"

namespace reprise::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

/// A server of the bundled model, whose engine the test may hold.
class ApiServerTest : public testing::Test {
 protected:
  ~ApiServerTest() override {
    release();
    server_.reset();
    service_.reset();
  }

  void start(int32_t max_queued = 0, ApiOptions options = {}, std::function<void()> before_loading = [] {}) {
    options.http.port = 0;
    service_ = std::make_unique<engine::EngineService>(
        [before_loading = std::move(before_loading)] {
          before_loading();
          engine::EngineOptions engine_options;
          engine_options.max_running = 8;
          engine_options.max_context = 1024;
          engine_options.kv_tokens = 8 * 1024;
          return engine::make_mini_engine(engine_options);
        },
        engine::ServiceOptions{.max_queued = max_queued});
    ServedModel model;
    model.name = model.path = "mini";
    model.chat_template = text::ChatTemplate::load(REPRISE_SOURCE_DIR "/models/mini");
    model.generation_config = load::GenerationConfig::load(REPRISE_SOURCE_DIR "/models/mini");
    server_ = std::make_unique<ApiServer>(*service_, std::move(model), options);
  }
  void wait_until_ready() const {
    while (service_->state() == engine::ServiceState::kLoading) std::this_thread::sleep_for(1ms);
  }
  /// Stops the engine's loop between two steps until release().
  void hold() {
    auto holding = std::make_shared<std::promise<void>>();
    auto held = holding->get_future();
    static_cast<void>(service_->run([this, holding](engine::Engine&) {
      holding->set_value();
      released_.get_future().wait();
    }));
    held.wait();
    holds_ = true;
  }
  void release() {
    if (std::exchange(holds_, false)) released_.set_value();
  }

  std::string ask(std::string_view request) const {
    RawClient client(server_->port());
    return client.ask(request);
  }
  std::string health() const { return ask("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"); }
  static std::string post(std::string_view path, const json& body) {
    const std::string text = body.dump();
    return fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                       path, text.size(), text);
  }
  static json completion(int index, int32_t max_tokens, bool stream = false) {
    return {{"prompt", fmt::format("Question: Ann has {} pens and buys 4. How many pens has she?\nAnswer:", index)},
            {"max_tokens", max_tokens},
            {"ignore_eos", true},
            {"stream", stream}};
  }
  static json body_of(const std::string& response) {
    const size_t head = response.find("\r\n\r\n");
    EXPECT_NE(head, std::string::npos) << response;
    return json::parse(response.substr(head + 4), nullptr, false);
  }
  std::string text_of(const json& request) const {
    return body_of(ask(post("/v1/completions", request)))["choices"][0]["text"].get<std::string>();
  }
  /// The texts of a stream's events, joined.
  static std::string streamed_text(const std::string& response) {
    std::string text;
    for (size_t at = response.find("data: {"); at != std::string::npos; at = response.find("data: {", at + 1)) {
      const size_t end = response.find("\n\n", at);
      const json event = json::parse(response.substr(at + 6, end - at - 6));
      for (const json& choice : event["choices"]) text += choice["text"].get<std::string>();
    }
    return text;
  }
  bool wait_until_idle() const {
    for (int i = 0; i < 2000; ++i) {
      const engine::ServiceSnapshot snapshot = service_->snapshot();
      if (snapshot.running == 0 && snapshot.waiting == 0 && snapshot.kv_tokens_used == 0) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }

  std::promise<void> released_;
  bool holds_ = false;
  std::unique_ptr<engine::EngineService> service_;
  std::unique_ptr<ApiServer> server_;
};

TEST_F(ApiServerTest, B51SaysThatItIsNotReadyWhileTheModelIsLoaded) {
  std::promise<void> loading;
  auto may_load = std::make_shared<std::future<void>>(loading.get_future());
  start(0, {}, [may_load] { may_load->wait(); });
  EXPECT_THAT(health(), StartsWith("HTTP/1.1 503"));
  const std::string refused = ask(post("/v1/completions", completion(1, 4)));
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(refused, HasSubstr("Retry-After: "));
  EXPECT_EQ(body_of(refused)["error"]["code"], "loading");
  EXPECT_THAT(ask("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("\"mini\""));
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("state=\"loading\"} 0"));
  loading.set_value();
  wait_until_ready();
  EXPECT_THAT(health(), StartsWith("HTTP/1.1 200"));
  EXPECT_NE(text_of(completion(1, 4)), "");
}

TEST_F(ApiServerTest, SaysThatTheEngineHasFailed) {
  const LogLevel before = LogLevel::kInfo;
  set_log_level(LogLevel::kOff);
  start(0, {}, [] { throw Error(ErrorCode::kCorruptData, "no weights"); });
  wait_until_ready();
  EXPECT_THAT(health(), StartsWith("HTTP/1.1 503"));
  const auto refused = body_of(ask(post("/v1/completions", completion(1, 4))))["error"];
  EXPECT_EQ(refused["code"], "failed");
  EXPECT_EQ(refused["message"], "The engine has failed: no weights");
  set_log_level(before);
}

TEST_F(ApiServerTest, B74AnswersHealthWhileTheDecodeLoopIsHeldAndTellsWhenThatIsTooLong) {
  ApiOptions options;
  options.health_timeout = 600ms;
  start(0, options);
  wait_until_ready();
  hold();
  const auto begin = std::chrono::steady_clock::now();
  std::string first = health();
  const auto took = std::chrono::steady_clock::now() - begin;
  // On a machine that is busy with other things the loop may have been silent for longer already.
  if (took < 100ms) {
    EXPECT_THAT(first, StartsWith("HTTP/1.1 200"));
  }
  EXPECT_LT(took, 500ms);
  std::this_thread::sleep_for(700ms);
  const std::string wedged = health();
  EXPECT_THAT(wedged, StartsWith("HTTP/1.1 503"));
  EXPECT_EQ(body_of(wedged)["error"]["code"], "wedged");
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  release();
  for (int i = 0; i < 200 && !health().starts_with("HTTP/1.1 200"); ++i) std::this_thread::sleep_for(5ms);
  EXPECT_THAT(health(), StartsWith("HTTP/1.1 200"));
}

TEST_F(ApiServerTest, RefusesWhatTheQueueCannotTake) {
  start(/*max_queued=*/2);
  wait_until_ready();
  hold();
  std::vector<std::unique_ptr<RawClient>> clients;
  int refused = 0;
  for (int i = 0; i < 14; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    clients.back()->send(post("/v1/completions", completion(i, 4)));
  }
  // Of 8 that run and 2 that wait nobody hears before the engine goes on.
  for (auto& client : clients) {
    const std::string answer = client->receive(200ms);
    if (answer.empty()) continue;
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(answer, HasSubstr("The request queue is full."));
    ++refused;
  }
  EXPECT_EQ(refused, 4);
  release();
  EXPECT_TRUE(wait_until_idle());
}

TEST_F(ApiServerTest, B61CancelsTheRequestsOfClientsThatGoWhateverTheyWaitFor) {
  start();
  wait_until_ready();
  for (int i = 0; i < 60; ++i) {
    RawClient client(server_->port());
    client.send(post("/v1/completions", completion(i, 900, i % 2 == 0)));
    if (i % 3 == 0) std::this_thread::sleep_for(1ms);
    if (i % 5 == 0) client.half_close();
  }
  EXPECT_TRUE(wait_until_idle());
  // A prompt that takes a while to read, and clients that are behind it in the queue.
  std::string words;
  for (int i = 0; i < 300; ++i) words += "Ann has 3 pens. ";
  for (int i = 0; i < 20; ++i) {
    RawClient client(server_->port());
    client.send(
        post("/v1/completions", {{"prompt", words.substr(0, 1500)}, {"max_tokens", 300}, {"ignore_eos", true}}));
  }
  EXPECT_TRUE(wait_until_idle());
}

TEST_F(ApiServerTest, ManyStreamsAreRightBesideClientsThatGoAndClientsThatDoNotRead) {
  start();
  wait_until_ready();
  constexpr int kClients = 40;
  constexpr int32_t kTokens = 40;
  std::vector<std::string> expected;
  for (int i = 0; i < 5; ++i) expected.push_back(text_of(completion(i, kTokens)));
  std::vector<std::unique_ptr<RawClient>> slow;
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  std::atomic<int> read = 0;
  for (int i = 0; i < kClients; ++i) {
    if (i % 10 == 0) {  // reads nothing at all
      slow.push_back(std::make_unique<RawClient>(server_->port(), 4096));
      slow.back()->send(post("/v1/completions", completion(i % 5, 400, true)));
      continue;
    }
    threads.emplace_back([this, i, &expected, &right, &read] {
      RawClient client(server_->port());
      client.send(post("/v1/completions", completion(i % 5, kTokens, true)));
      if (i % 10 == 1) {
        client.receive();
        return;  // gone in the middle
      }
      ++read;
      // Chunks' frames lie between events, not in them.
      std::string text = client.receive_until("0\r\n\r\n");
      if (streamed_text(text) == expected[static_cast<size_t>(i % 5)]) ++right;
    });
  }
  for (int i = 0; i < 10; ++i) EXPECT_THAT(health(), StartsWith("HTTP/1.1 200"));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, read);
  EXPECT_EQ(read, kClients * 8 / 10);
  slow.clear();
  EXPECT_TRUE(wait_until_idle());
}

TEST_F(ApiServerTest, SendsStreamsOfAnySizeToClientsThatRead) {
  ApiOptions options;
  options.http.max_unread_bytes = 4 << 10;
  start(0, options);
  wait_until_ready();
  json many = completion(1, 100, true);
  many.update({{"n", 8}, {"logprobs", 20}, {"echo", true}, {"temperature", 1}, {"seed", 3}});
  RawClient client(server_->port());
  client.send(post("/v1/completions", many));
  EXPECT_THAT(client.receive_until("0\r\n\r\n"), HasSubstr("data: [DONE]"));
  const json so_far = {{"text", {"Ann has", "Question: 2"}},
                       {"stream", true},
                       {"return_logprob", true},
                       {"logprob_start_len", 0},
                       {"top_logprobs_num", 10},
                       {"sampling_params", {{"max_new_tokens", 200}, {"ignore_eos", true}, {"temperature", 0}}}};
  RawClient native(server_->port());
  native.send(post("/generate", so_far));
  const std::string events = native.receive_until("0\r\n\r\n");
  ASSERT_THAT(events, HasSubstr("data: [DONE]"));
  EXPECT_EQ(server_->http_counters().given_up, 0);
  // The last event of each output has all of it.
  json whole = so_far;
  whole["stream"] = false;
  const json expected = body_of(ask(post("/generate", whole)));
  std::vector<json> last(2);
  for (size_t at = events.find("data: {"); at != std::string::npos; at = events.find("data: {", at + 1)) {
    const json event = json::parse(events.substr(at + 6, events.find("\n\n", at) - at - 6));
    last.at(event["index"].get<size_t>()) = event;
  }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(last[i]["text"], expected[i]["text"]);
    for (const char* list : {"input_token_logprobs", "output_token_logprobs", "output_top_logprobs"}) {
      EXPECT_EQ(last[i]["meta_info"][list].size(), expected[i]["meta_info"][list].size()) << list;
    }
  }
}

TEST_F(ApiServerTest, TellsOfPromptsOnceInStreamsOfWhatIsNew) {
  ApiOptions options;
  options.incremental_streams = true;
  start(0, options);
  wait_until_ready();
  RawClient client(server_->port());
  client.send(post("/generate", {{"text", "Ann has"},
                                 {"stream", true},
                                 {"return_logprob", true},
                                 {"logprob_start_len", 0},
                                 {"sampling_params", {{"max_new_tokens", 8}, {"ignore_eos", true}}}}));
  const std::string events = client.receive_until("0\r\n\r\n");
  size_t prompt = 0;
  size_t output = 0;
  for (size_t at = events.find("data: {"); at != std::string::npos; at = events.find("data: {", at + 1)) {
    const json event = json::parse(events.substr(at + 6, events.find("\n\n", at) - at - 6));
    prompt += event["meta_info"]["input_token_logprobs"].size();
    output += event["meta_info"]["output_token_logprobs"].size();
    if (event["meta_info"]["completion_tokens"] == 8) {
      EXPECT_EQ(prompt, event["meta_info"]["prompt_tokens"]);
    }
  }
  EXPECT_EQ(output, 8U);
}

TEST_F(ApiServerTest, EndsWithinItsLimitWhateverRuns) {
  start();
  wait_until_ready();
  RawClient client(server_->port());
  client.send(post("/v1/completions", completion(1, 900, true)));
  client.receive();
  server_->drain(0ms);
  EXPECT_THAT(client.receive_all(), HasSubstr("\"finish_reason\":\"abort\""));
}

TEST_F(ApiServerTest, LetsClientsReadWhatHasEndedBeforeItCloses) {
  ApiOptions options;
  options.http.max_unread_bytes = size_t{64} << 20;  // a slow client is not given up
  start(0, options);
  wait_until_ready();
  // More than the system buffers.
  json request = completion(1, 400, true);
  request.update({{"n", 8}, {"logprobs", 20}});
  RawClient client(server_->port(), 64 << 10);
  client.send(post("/v1/completions", request));
  std::string answer = client.receive();
  auto drained = std::async(std::launch::async, [this] { server_->drain(30s); });
  // Longer than what is given to those who are cut off.
  for (int i = 0; i < 25; ++i) {
    std::this_thread::sleep_for(100ms);
    answer += client.receive();
  }
  answer += client.receive_until("0\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("data: [DONE]"));
  EXPECT_THAT(answer, testing::Not(HasSubstr("abort")));
  EXPECT_EQ(drained.wait_for(10s), std::future_status::ready);
}

TEST_F(ApiServerTest, ClosesInTimeThoughClientsDoNotRead) {
  start();
  wait_until_ready();
  json request = completion(1, 300, true);
  request.update({{"n", 8}, {"logprobs", 20}});
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port(), 4096));
    clients.back()->send(post("/v1/completions", request));
    clients.back()->receive();
  }
  const auto begin = std::chrono::steady_clock::now();
  server_->drain(300ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 6s);
}

TEST_F(ApiServerTest, B75TellsOfAFailureInTheMiddleOfAStream) {
  start();
  wait_until_ready();
  RawClient client(server_->port());
  client.send(post("/v1/completions", completion(1, 900, true)));
  std::string answer = client.receive_until("data: ");
  const LogLevel before = LogLevel::kInfo;
  set_log_level(LogLevel::kOff);
  service_->run([](engine::Engine& engine) { engine.fail_all(Error(ErrorCode::kOutOfMemory, "no memory is left")); })
      .get();
  answer += client.receive_until("0\r\n\r\n");
  set_log_level(before);
  EXPECT_THAT(answer, HasSubstr("data: {\"error\":{\"message\":\"no memory is left\""));
  EXPECT_THAT(answer, HasSubstr("data: [DONE]\n\n"));
}

TEST_F(ApiServerTest, GivesStepsToThoseWhoWatch) {
  start();
  wait_until_ready();
  text_of(completion(1, 8));
  EXPECT_TRUE(wait_until_idle());  // the last step is told of after the answer
  const json state = body_of(ask("GET /state HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_FALSE(state["steps"].empty());
  EXPECT_EQ(state["steps"].back()["kind"], "decode");
  const int64_t last = state["steps"].back()["index"];
  const json later = body_of(ask(fmt::format("GET /state?after={} HTTP/1.1\r\nHost: x\r\n\r\n", last)));
  EXPECT_TRUE(later["steps"].empty());
  EXPECT_THAT(ask("GET /state?after=x HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 400"));
}

}  // namespace
}  // namespace reprise::server
