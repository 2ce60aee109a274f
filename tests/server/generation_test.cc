#include "server/generation.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.h"
#include "engine/mini_engine.h"

namespace reprise::server {
namespace {

/// A client that takes everything.
class PatientExchange : public Exchange {
 public:
  void respond(HttpResponse) override {}
  void begin_stream(std::string) override {}
  bool write(std::string_view, int64_t) override { return true; }
  bool when_room(bool, std::function<void()>) override { return true; }
  bool gone() const override { return false; }
  void end_stream() override {}
  void on_gone(std::function<void()>) override {}
};

struct Calls {
  int events = 0;
  int flushes = 0;
  int completions = 0;
  std::vector<std::string> failures;
};

/// Gathers events, and fails where it is told to.
class FailingWriter : public AnswerWriter {
 public:
  FailingWriter(Calls& calls, int failing_event, int failing_flush, bool silent = false)
      : calls_(calls), failing_event_(failing_event), failing_flush_(failing_flush), silent_(silent) {}
  bool wants_tokens() const override { return true; }
  bool gathers() const override { return true; }
  void on_event(ChoiceEvent&) override { fail_at(++calls_.events == failing_event_); }
  void flush() override { fail_at(++calls_.flushes == failing_flush_); }
  void on_complete() override { ++calls_.completions; }
  void on_failure(const Error& error) override {
    calls_.failures.emplace_back(error.what());
    fail_at(silent_);
  }

 private:
  static void fail_at(bool here) {
    if (here) throw std::bad_alloc();
  }

  Calls& calls_;
  const int failing_event_;
  const int failing_flush_;
  const bool silent_;
};

/// Runs a request to its end, and then what the server's threads have to do about its events.
class GenerationTest : public testing::Test {
 protected:
  GenerationTest() {
    set_log_level(LogLevel::kOff);
    while (service_.state() == engine::ServiceState::kLoading)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~GenerationTest() override { set_log_level(LogLevel::kInfo); }

  Calls generate(int failing_event, int failing_flush, bool silent = false) {
    Calls calls;
    const auto keep_task = [this](std::function<void()> task) { keep(std::move(task)); };
    const auto relay = std::make_shared<EventRelay>(EventRelay::Executor{keep_task, {}, keep_task},
                                                    /*gather_time=*/std::chrono::milliseconds(0));
    service_.on_turn_end([relay] { relay->end_turn(); });
    const auto exchange = std::make_shared<PatientExchange>();
    const GenerationHost host{service_, relay, std::make_shared<LiveRequests>(), std::make_shared<ServerMetrics>()};
    std::vector<engine::Request> requests(1);
    requests[0].prompt = {5, 6, 7};
    requests[0].sampling.max_new_tokens = 8;
    requests[0].sampling.ignore_eos = true;
    Generation::start(host, exchange, std::move(requests), {{"name"}},
                      std::make_unique<FailingWriter>(calls, failing_event, failing_flush, silent),
                      std::chrono::steady_clock::now());
    for (int i = 0; i < 5000 && service_.snapshot().statistics.finished_requests == finished_; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    finished_ = service_.snapshot().statistics.finished_requests;
    service_.run([](engine::Engine&) {}).get();  // behind the end of the turn, which posts the last tasks
    while (std::function<void()> task = next()) task();
    EXPECT_TRUE(host.live->all().empty());
    return calls;
  }

 private:
  void keep(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  std::function<void()> next() {
    const std::lock_guard lock(mutex_);
    if (tasks_.empty()) return {};
    std::function<void()> task = std::move(tasks_.front());
    tasks_.erase(tasks_.begin());
    return task;
  }

  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
  int64_t finished_ = 0;
  engine::EngineService service_{[] {
    engine::EngineOptions options;
    options.max_running = 2;
    options.max_context = 64;
    options.kv_tokens = 128;
    return engine::make_mini_engine(options);
  }};
};

TEST_F(GenerationTest, AnAnswerThatCannotBeWrittenEndsWithAFailureAndNothingElse) {
  const Calls whole = generate(0, 0);
  EXPECT_EQ(whole.events, 8);
  EXPECT_EQ(whole.completions, 1);
  EXPECT_TRUE(whole.failures.empty());
  // The last thing that is said before the end, and an event in the middle.
  for (const auto& [event, flush] : {std::pair(0, whole.flushes), {3, 0}, {8, 0}}) {
    const Calls calls = generate(event, flush);
    EXPECT_EQ(calls.completions, 0) << event;
    EXPECT_EQ(calls.failures, std::vector<std::string>{"The answer could not be written."}) << event;
    if (event > 0) {
      EXPECT_EQ(calls.events, event);
    }
  }
  // Not even the failure can be told: that ends nothing but this answer.
  const Calls silent = generate(3, 0, true);
  EXPECT_EQ(silent.failures.size(), 1U);
  EXPECT_EQ(silent.completions, 0);
}

}  // namespace
}  // namespace reprise::server
