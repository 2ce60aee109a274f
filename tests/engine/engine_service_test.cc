#include "engine/engine_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "base/error.h"
#include "base/log.h"
#include "engine/mini_engine.h"

namespace reprise::engine {
namespace {

using replay::StepKind;
using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kLong{60'000};

EngineOptions service_options() {
  EngineOptions options;
  options.buckets.sizes = {1, 2, 4};
  options.max_running = 4;
  options.max_context = 128;
  options.kv_tokens = 4 * 128;
  return options;
}

std::unique_ptr<EngineService> make_service(const EngineOptions& options = service_options(),
                                            ServiceOptions service = {}) {
  return std::make_unique<EngineService>([options] { return make_mini_engine(options); }, service);
}

void wait_until_loaded(const EngineService& service) {
  while (service.state() == ServiceState::kLoading) std::this_thread::sleep_for(milliseconds(1));
}

// Its last event, which may be waited for.
class Answer {
 public:
  TokenCallback callback() {
    return [this](const TokenEvent& event) {
      if (event.token) ++tokens;
      if (event.output != nullptr) output_.set_value(*event.output);
    };
  }
  RequestOutput wait() {
    EXPECT_EQ(future_.wait_for(kLong), std::future_status::ready);
    return future_.get();
  }
  bool ended() const { return future_.wait_for(milliseconds(0)) == std::future_status::ready; }
  std::atomic<int> tokens = 0;

 private:
  std::promise<RequestOutput> output_;
  std::future<RequestOutput> future_ = output_.get_future();
};

Request service_request(int32_t index, int32_t max_new_tokens, Answer& answer) {
  Request request;
  request.prompt = mini_tokenizer().encode("Tom has " + std::to_string(index) + " apples and buys 3 more.");
  request.sampling.temperature = index % 2 == 0 ? 0 : 1;
  request.sampling.seed = static_cast<uint64_t>(index);
  request.sampling.max_new_tokens = max_new_tokens;
  request.sampling.ignore_eos = true;
  request.on_token = answer.callback();
  return request;
}

template <typename Call>
void expect_error(ErrorCode code, const std::string& text, Call call) {
  try {
    call();
    ADD_FAILURE() << "no error " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_THAT(error.message(), HasSubstr(text));
  }
}

// Until the engine's thread is let go, it stands between two turns.
class Hold {
 public:
  explicit Hold(EngineService& service) {
    std::promise<void> begun;
    std::future<void> begin = begun.get_future();
    done_ = service.run([this, &begun](Engine&) {
      begun.set_value();
      let_go_.get_future().wait();
    });
    begin.wait();
  }
  void let_go() {
    let_go_.set_value();
    done_.get();
  }

 private:
  std::promise<void> let_go_;
  std::future<void> done_;
};

TEST(EngineService, AnswersManyThreadsWithWhatEachRequestGetsAlone) {
  constexpr int kThreads = 4;
  constexpr int kEach = 3;
  std::map<int, RequestOutput> expected;
  const auto alone = make_mini_engine(service_options());
  for (int i = 0; i < kThreads * kEach; ++i) {
    Answer answer;
    alone->submit(service_request(i, 12, answer));
    alone->run_until_done();
    expected.emplace(i, answer.wait());
  }
  const auto service = make_service();
  wait_until_loaded(*service);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = thread * kEach; i < (thread + 1) * kEach; ++i) {
        Answer answer;
        service->submit(service_request(i, 12, answer));
        service->snapshot();
        const RequestOutput output = answer.wait();
        EXPECT_EQ(output.token_ids, expected.at(i).token_ids) << i;
        EXPECT_EQ(output.text, expected.at(i).text) << i;
        EXPECT_EQ(answer.tokens, 12);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  service->drain(kLong);
  const ServiceSnapshot end = service->snapshot();
  EXPECT_EQ(end.statistics.finished_requests, kThreads * kEach);
  EXPECT_EQ(end.statistics.generated_tokens, kThreads * kEach * 12);
  EXPECT_EQ(end.running + end.waiting, 0);
  EXPECT_EQ(end.kv_tokens_used, 0);
  EXPECT_EQ(end.kv_tokens_capacity, 4 * 128);
  EXPECT_GT(end.counters.steps(StepKind::kDecode), 0);
  EXPECT_GT(end.captures, 0);
}

TEST(EngineService, TakesRequestsOnlyOnceTheEngineIsMade) {
  std::promise<void> go;
  const std::shared_future<void> gate = go.get_future().share();
  EngineService service([gate] {
    gate.wait();
    return make_mini_engine(service_options());
  });
  Answer answer;
  EXPECT_EQ(service.state(), ServiceState::kLoading);
  EXPECT_EQ(service.info(), nullptr);
  EXPECT_EQ(service.tokenizer(), nullptr);
  expect_error(ErrorCode::kFailedPrecondition, "loading", [&] { service.submit(service_request(1, 3, answer)); });
  std::future<void> task = service.run([](Engine& engine) { EXPECT_EQ(engine.open_requests(), 0); });
  go.set_value();
  task.get();
  EXPECT_EQ(service.state(), ServiceState::kReady);
  EXPECT_EQ(service.info()->options.max_running, 4);
  EXPECT_GT(service.info()->model.vocabulary, 0);
  EXPECT_NE(service.tokenizer(), nullptr);
  service.submit(service_request(1, 3, answer));
  EXPECT_EQ(answer.wait().token_ids.size(), 3u);
}

TEST(EngineService, ChecksRequestsOnTheCallersThreadAndTakesAllOfThemOrNone) {
  const auto service = make_service();
  wait_until_loaded(*service);
  Answer answers[2];
  std::vector<Request> requests;
  requests.push_back(service_request(1, 3, answers[0]));
  requests.push_back(service_request(2, 3, answers[1]));
  requests[1].sampling.top_p = 2;
  expect_error(ErrorCode::kInvalidArgument, "top_p", [&] { service->submit(requests); });
  requests[1].sampling.top_p = 1;
  EXPECT_EQ(service->submit(requests).size(), 2u);
  for (Answer& answer : answers) EXPECT_EQ(answer.wait().finish, FinishReason::kLength);
  service->drain(kLong);
  EXPECT_EQ(service->snapshot().statistics.finished_requests, 2);
}

TEST(EngineService, RefusesWhatTheQueueHasNoPlaceForAndAnswersWhileTheEngineStands) {
  const auto service = make_service(service_options(), {.max_queued = 2});
  wait_until_loaded(*service);
  Answer answers[7];
  Hold hold(*service);
  const auto heartbeat = service->snapshot().heartbeat;
  // Four may run, and two may wait.
  for (int i = 0; i < 6; ++i) service->submit(service_request(i, 3, answers[i]));
  expect_error(ErrorCode::kResourceExhausted, "queue is full",
               [&] { service->submit(service_request(6, 3, answers[6])); });
  // Seven at once would never find a place.
  std::vector<Request> many;
  for (Answer& answer : answers) many.push_back(service_request(0, 3, answer));
  expect_error(ErrorCode::kInvalidArgument, "7 outputs are asked for at once, but only 6 can run and wait",
               [&] { service->submit(std::move(many)); });
  EXPECT_EQ(service->snapshot().waiting, 6);
  EXPECT_EQ(service->snapshot().heartbeat, heartbeat);
  EXPECT_EQ(service->state(), ServiceState::kReady);
  hold.let_go();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(answers[i].wait().token_ids.size(), 3u);
  service->submit(service_request(6, 3, answers[6]));
  EXPECT_EQ(answers[6].wait().token_ids.size(), 3u);
}

TEST(EngineService, B61CancelEndsARequestWhereverItIs) {
  const auto service = make_service();
  wait_until_loaded(*service);
  Answer answers[7];
  std::vector<RequestId> ids;
  Hold hold(*service);
  for (int i = 0; i < 7; ++i) {
    Request request = service_request(i, 100, answers[i]);
    if (i == 0) {
      request.on_token = [&, told = request.on_token](const TokenEvent& event) {
        told(event);
        if (answers[0].tokens != 3 || event.output != nullptr) return;
        for (const RequestId id : ids) service->cancel(id);  // four run and two wait
      };
    }
    ids.push_back(service->submit(std::move(request)));
  }
  service->cancel(ids[6]);  // the engine has not seen it
  service->cancel(12345);
  hold.let_go();
  for (Answer& answer : answers) EXPECT_EQ(answer.wait().finish, FinishReason::kCancelled);
  service
      ->run([](Engine& engine) {
        EXPECT_EQ(engine.open_requests(), 0);
        EXPECT_EQ(engine.kv_pool().free_pages(), engine.kv_pool().usable_pages());
      })
      .get();
  EXPECT_EQ(service->snapshot().statistics.cancelled_requests, 7);
}

TEST(EngineService, DrainingLetsRequestsEndAndTakesNoOthers) {
  const auto service = make_service();
  wait_until_loaded(*service);
  Answer first;
  Answer second;
  service->submit(service_request(1, 40, first));
  service->drain(kLong);
  EXPECT_TRUE(first.ended());
  EXPECT_EQ(first.wait().finish, FinishReason::kLength);
  EXPECT_EQ(service->state(), ServiceState::kStopped);
  expect_error(ErrorCode::kFailedPrecondition, "stopped", [&] { service->submit(service_request(2, 3, second)); });
}

TEST(EngineService, DrainingCancelsWhatTakesTooLong) {
  EngineOptions options = service_options();
  options.max_context = 0;
  options.kv_tokens = 4096;
  const auto service = make_service(options);
  wait_until_loaded(*service);
  Answer answer;
  const auto context = static_cast<int32_t>(service->info()->options.max_context);
  service->submit(service_request(1, context - 100, answer));
  service->drain(milliseconds(0));
  EXPECT_TRUE(answer.ended());
  EXPECT_EQ(answer.wait().finish, FinishReason::kCancelled);
}

TEST(EngineService, ItsEndEndsItsRequests) {
  Answer answers[3];
  {
    const auto service = make_service();
    wait_until_loaded(*service);
    for (int i = 0; i < 2; ++i) service->submit(service_request(i, 100, answers[i]));
    Hold hold(*service);
    service->submit(service_request(2, 100, answers[2]));
    hold.let_go();
  }
  for (Answer& answer : answers) {
    ASSERT_TRUE(answer.ended());
    answer.wait();
  }
}

TEST(EngineService, CallbacksMaySubmitAndCancel) {
  const auto service = make_service();
  wait_until_loaded(*service);
  Answer first;
  Answer second;
  Request request = service_request(1, 50, first);
  request.on_token = [&, told = request.on_token](const TokenEvent& event) {
    told(event);
    if (event.output == nullptr && first.tokens == 3) {
      service->submit(service_request(2, 5, second));
      service->cancel(event.request);
    }
  };
  service->submit(std::move(request));
  EXPECT_EQ(second.wait().token_ids.size(), 5u);
  EXPECT_EQ(first.wait().finish, FinishReason::kCancelled);
}

ops::OpKernel healthy_linear;
void linear_that_fails_to_capture_two_rows(const ops::OpCall& call) {
  const bool capturing = call.stream->capture_info().status == device::CaptureStatus::kActive;
  if (capturing && call.inputs[0].size(0) == 2) throw Error(ErrorCode::kOutOfMemory, "no memory for two rows");
  healthy_linear.run(call);
}

TEST(EngineService, B51ClientsFromTheFirstMomentAreServedThoughACaptureFails) {
  set_log_level(LogLevel::kOff);
  MiniMachine machine(1);
  ops::OpDef& linear = machine.registry.get("linear");
  healthy_linear = *linear.kernel("cpu");
  ops::OpKernel failing = healthy_linear;
  failing.run = linear_that_fails_to_capture_two_rows;
  linear.set_kernel("cpu", failing);
  EngineOptions options = service_options();
  options.capture_at_once_milliseconds = 0;
  EngineService service([&machine, options] {
    return Engine::create(*machine.device, machine.registry, machine.model, mini_tokenizer(), options);
  });
  constexpr int kClients = 8;
  std::vector<std::vector<int32_t>> tokens(kClients);
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 3; ++i) {
        Answer answer;
        Request request = service_request(client, 10 + client, answer);
        while (true) {
          try {
            service.submit(request);
            break;
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
            std::this_thread::sleep_for(milliseconds(1));
          }
        }
        tokens[static_cast<size_t>(client)] = answer.wait().token_ids;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  Answer alone;
  service.submit(service_request(0, 10, alone));
  EXPECT_EQ(alone.wait().token_ids, tokens[0]);
  service.drain(kLong);
  set_log_level(LogLevel::kInfo);

  const auto eager = [] {
    EngineOptions eager_options = service_options();
    eager_options.mode = replay::Mode::kEager;
    return make_mini_engine(eager_options);
  }();
  for (int client = 0; client < kClients; ++client) {
    Answer answer;
    eager->submit(service_request(client, 10 + client, answer));
    eager->run_until_done();
    EXPECT_EQ(answer.wait().token_ids, tokens[static_cast<size_t>(client)]) << client;
  }
  const replay::StepCounters counters = service.snapshot().counters;
  EXPECT_GT(counters.steps(StepKind::kDecode, replay::StepReason::kReplayed), 0);
  EXPECT_EQ(service.snapshot().statistics.failed_requests, 0);
}

TEST(EngineService, TellsEveryStep) {
  const auto service = make_service();
  wait_until_loaded(*service);
  Answer answers[3];
  for (int i = 0; i < 3; ++i) service->submit(service_request(i, 20, answers[i]));
  for (Answer& answer : answers) answer.wait();
  service->drain(kLong);
  const std::vector<StepRecord> records = service->step_records();
  const ServiceSnapshot snapshot = service->snapshot();
  ASSERT_EQ(static_cast<int64_t>(records.size()),
            snapshot.counters.steps(StepKind::kDecode) + snapshot.counters.steps(StepKind::kPrefill));
  EXPECT_EQ(records[0].kind, StepKind::kPrefill);
  EXPECT_EQ(records[0].reason, replay::StepReason::kPrefill);
  EXPECT_EQ(records[0].gap_milliseconds, 0) << "nothing was to do before";
  int32_t decoded = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].index, static_cast<int64_t>(i));
    EXPECT_GT(records[i].milliseconds, 0);
    if (records[i].kind == StepKind::kPrefill) continue;
    decoded += records[i].tokens;
    EXPECT_TRUE(records[i].replayed);
    EXPECT_GE(records[i].bucket, records[i].sequences);
    EXPECT_GT(records[i].gap_milliseconds, 0);
  }
  EXPECT_EQ(decoded, 3 * 19);
  EXPECT_GT(snapshot.gap_milliseconds_median, 0);
  EXPECT_EQ(service->step_records(records[5].index).size(), records.size() - 6);
}

TEST(EngineService, ItsNumbersHoldAnAnswerBeforeItIsTold) {
  for (const bool overlap : {false, true}) {
    EngineOptions options = service_options();
    options.overlap = overlap;
    const auto service = make_service(options);
    wait_until_loaded(*service);
    std::promise<ServiceSnapshot> told;
    Answer unused;
    Request request = service_request(0, 5, unused);
    request.on_token = [&](const TokenEvent& event) {
      if (event.output != nullptr) told.set_value(service->snapshot());
    };
    service->submit(std::move(request));
    const ServiceSnapshot snapshot = told.get_future().get();
    EXPECT_EQ(snapshot.statistics.finished_requests, 1) << overlap;
    EXPECT_EQ(snapshot.statistics.generated_tokens, 5) << overlap;
    EXPECT_EQ(snapshot.statistics.decode_steps, 4) << overlap;
    EXPECT_EQ(snapshot.counters.steps(StepKind::kDecode), 4) << overlap;
    EXPECT_EQ(snapshot.running + snapshot.waiting, 0) << overlap;
    EXPECT_EQ(snapshot.kv_tokens_used, 0) << overlap;
    EXPECT_EQ(service->step_records().size(), 5u) << overlap;
  }
}

TEST(EngineService, ShowsThatItIsAliveWhileItIsIdle) {
  const auto service = make_service();
  wait_until_loaded(*service);
  const auto heartbeat = service->snapshot().heartbeat;
  for (int i = 0; i < 6000 && service->snapshot().heartbeat == heartbeat; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_GT(service->snapshot().heartbeat, heartbeat);
}

// Expected failures need no lines on the terminal.
class EngineServiceFailure : public testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kOff); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }
};

TEST_F(EngineServiceFailure, OfLoadingIsTold) {
  EngineService service(
      []() -> std::unique_ptr<Engine> { throw Error(ErrorCode::kCorruptData, "the weights are torn"); });
  wait_until_loaded(service);
  EXPECT_EQ(service.state(), ServiceState::kFailed);
  EXPECT_EQ(service.snapshot().failure, "the weights are torn");
  Answer answer;
  expect_error(ErrorCode::kFailedPrecondition, "torn", [&] { service.submit(service_request(1, 3, answer)); });
  expect_error(ErrorCode::kFailedPrecondition, "no engine", [&] { service.run([](Engine&) {}).get(); });
  service.drain(kLong);
}

TEST_F(EngineServiceFailure, OfATaskIsTheTasksOnly) {
  const auto service = make_service();
  std::future<void> task = service->run([](Engine&) { throw std::runtime_error("not today"); });
  EXPECT_THROW(task.get(), std::runtime_error);
  Answer answer;
  service->submit(service_request(1, 3, answer));
  EXPECT_EQ(answer.wait().token_ids.size(), 3u);
}

TEST_F(EngineServiceFailure, OfTheEngineEndsEveryRequestAndLetsNoOtherIn) {
  EngineOptions options = service_options();
  options.max_running = 1;
  options.progress = [](int, int, const std::string&) { throw std::logic_error("nobody expects this"); };
  const auto service = make_service(options);
  wait_until_loaded(*service);
  Answer answers[3];
  Hold hold(*service);
  for (int i = 0; i < 2; ++i) service->submit(service_request(i, 3, answers[i]));
  hold.let_go();
  for (int i = 0; i < 2; ++i) {
    const RequestOutput output = answers[i].wait();
    EXPECT_EQ(output.finish, FinishReason::kError);
    EXPECT_THAT(output.error->message(), HasSubstr("nobody expects this"));
  }
  EXPECT_EQ(service->state(), ServiceState::kFailed);
  expect_error(ErrorCode::kFailedPrecondition, "nobody expects this",
               [&] { service->submit(service_request(2, 3, answers[2])); });
  service->drain(kLong);
}

}  // namespace
}  // namespace reprise::engine
