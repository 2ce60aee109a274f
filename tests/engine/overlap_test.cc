// Decode steps that run while the host tells events, takes requests and cancels others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "engine/engine_service.h"
#include "engine/mini_engine.h"
#include "engine/step_loop_harness.h"

namespace reprise::engine {
namespace {

using testing::HasSubstr;

LoopSetup overlapped() {
  LoopSetup setup;
  setup.overlap = true;
  return setup;
}

// A device with a thread of its own that runs a step as soon as it is issued, but finishes it only once it is let.
class BusyDevice {
 public:
  explicit BusyDevice(FakeModel& model) : model_(model) {}
  ~BusyDevice() {
    if (step_.valid()) step_.wait();
  }

  AsynchronousSteps halves() {
    return {[this](const replay::StepBatch& batch) {
              step_ = std::async(std::launch::async, [this, batch] { return run(batch); });
            },
            [this] { return step_.get(); }};
  }
  void let_finish(int steps) {
    {
      const std::lock_guard lock(mutex_);
      allowed_ = std::max(allowed_, steps);
    }
    changed_.notify_one();
  }
  int finished() const { return finished_; }
  bool gave_up() const { return gave_up_; }

 private:
  replay::LogitsView run(const replay::StepBatch& batch) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [this] { return allowed_ > finished_; })) gave_up_ = true;
    ++finished_;
    return model_.run(batch);
  }

  FakeModel& model_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int allowed_ = 0;
  std::atomic<int> finished_ = 0;
  std::atomic<bool> gave_up_ = false;
  std::future<replay::LogitsView> step_;
};

TEST(Overlap, EventsOfAStepAreToldWhileTheNextOneRuns) {
  FakeDevice memory;
  KvPoolOptions pool_options;
  pool_options.page_size = 4;
  pool_options.tokens = 100;
  KvPool pool(memory, FakeModel::layout(), pool_options);
  FakeModel model(pool, kVocabulary);
  BusyDevice device(model);
  StepLoopOptions options;
  options.scheduler = {4, 16, 100};
  options.vocabulary = kVocabulary;
  options.asynchronous = device.halves();
  StepLoop loop(pool, nullptr, std::nullopt, options);
  std::vector<int32_t> told;
  Request request;
  request.prompt = prompt_of(5, 1);
  request.sampling = greedy(20);
  request.on_token = [&](const TokenEvent& event) {
    told.push_back(*event.token);
    EXPECT_EQ(device.finished(), static_cast<int>(told.size()));
    // The step of the next token cannot end before this one is told: without overlap nothing would go on.
    device.let_finish(static_cast<int>(told.size()) + 1);
  };
  device.let_finish(1);  // of the prompt
  loop.submit(std::move(request));
  loop.run_until_done();
  EXPECT_FALSE(device.gave_up());
  EXPECT_EQ(told, expected_output(prompt_of(5, 1), 20));
}

TEST(Overlap, TheStepRunsBetweenTwoTurns) {
  Loop loop(overlapped());
  const RequestId first = loop.submit(prompt_of(5, 1), greedy(6));
  EXPECT_TRUE(loop.loop.step());  // reads the prompt, and issues the first decode step
  ASSERT_TRUE(loop.issued);
  EXPECT_EQ(loop.model.steps, 1);
  EXPECT_EQ(loop.streamed[first].size(), 1u);
  const RequestId second = loop.submit(prompt_of(7, 2), greedy(3));
  EXPECT_TRUE(loop.loop.step());  // the second request's prompt follows the step
  EXPECT_EQ(loop.model.steps, 3);
  EXPECT_EQ(loop.streamed[first].size(), 2u);
  EXPECT_EQ(loop.streamed[second].size(), 1u);
  ASSERT_TRUE(loop.issued);
  EXPECT_EQ(loop.issued->sequences(), 2);
  loop.loop.run_until_done();
  EXPECT_FALSE(loop.issued);
  EXPECT_EQ(loop.output(first).token_ids, expected_output(prompt_of(5, 1), 6));
  EXPECT_EQ(loop.output(second).token_ids, expected_output(prompt_of(7, 2), 3));
}

TEST(Overlap, ACancelledRequestKeepsItsPagesUntilItsStepIsDone) {
  Loop loop(overlapped());
  const RequestId cancelled = loop.submit(prompt_of(6, 1), greedy(50));
  const RequestId other = loop.submit(prompt_of(9, 2), greedy(10));
  for (int i = 0; i < 3; ++i) loop.loop.step();
  ASSERT_TRUE(loop.issued);
  ASSERT_EQ(loop.issued->sequences(), 2);
  const int32_t free = loop.pool.free_pages();
  const size_t told = loop.streamed[cancelled].size();
  EXPECT_TRUE(loop.loop.cancel(cancelled));
  EXPECT_FALSE(loop.loop.cancel(cancelled));
  EXPECT_EQ(loop.pool.free_pages(), free) << "the step writes them";
  EXPECT_FALSE(loop.outputs.contains(cancelled));
  loop.loop.step();
  EXPECT_GT(loop.pool.free_pages(), free);
  EXPECT_EQ(loop.output(cancelled).finish, FinishReason::kCancelled);
  EXPECT_EQ(loop.output(cancelled).token_ids, loop.streamed[cancelled]) << "what the step gave it is dropped";
  EXPECT_EQ(loop.output(cancelled).token_ids.size(), told);
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(other).token_ids, expected_output(prompt_of(9, 2), 10));
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
}

TEST(Overlap, CallbacksMayCancelThemselvesAndOthersAndSubmit) {
  Loop loop(overlapped());
  const RequestId first = loop.submit(prompt_of(5, 1), greedy(50));
  const RequestId second = loop.submit(prompt_of(6, 2), greedy(50));
  const RequestId third = loop.submit(prompt_of(5, 3), greedy(50));
  RequestId late = 0;
  loop.on_event = [&](const TokenEvent& event) {
    if (event.request != second || event.output != nullptr || loop.streamed[second].size() != 5) return;
    EXPECT_THROW(loop.loop.settle(), Error);
    EXPECT_TRUE(loop.loop.cancel(first));   // told already
    EXPECT_TRUE(loop.loop.cancel(second));  // being told
    EXPECT_TRUE(loop.loop.cancel(third));   // to be told
    late = loop.submit(prompt_of(8, 4), greedy(4));
  };
  loop.loop.run_until_done();
  for (const RequestId id : {first, second, third}) {
    EXPECT_EQ(loop.output(id).finish, FinishReason::kCancelled);
    EXPECT_EQ(loop.output(id).token_ids.size(), 5u);
    EXPECT_EQ(loop.streamed[id], loop.output(id).token_ids);
  }
  EXPECT_EQ(loop.output(late).token_ids, expected_output(prompt_of(8, 4), 4));
  EXPECT_EQ(loop.loop.statistics().cancelled_requests, 3);
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
}

TEST(Overlap, SettlingWaitsForTheStepAndTheNextTurnTellsOfIt) {
  Loop loop(overlapped());
  const RequestId ended = loop.submit(prompt_of(5, 1), greedy(3));
  const RequestId cancelled = loop.submit(prompt_of(6, 2), greedy(50));
  for (int i = 0; i < 2; ++i) loop.loop.step();
  ASSERT_TRUE(loop.issued);
  loop.loop.settle();
  EXPECT_FALSE(loop.issued);
  EXPECT_EQ(loop.streamed[ended].size(), 2u);
  EXPECT_FALSE(loop.outputs.contains(ended));
  loop.loop.settle();
  EXPECT_TRUE(loop.loop.cancel(cancelled));
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
  EXPECT_TRUE(loop.loop.step());
  EXPECT_EQ(loop.output(ended).token_ids, expected_output(prompt_of(5, 1), 3));
  EXPECT_EQ(loop.output(cancelled).token_ids, expected_output(prompt_of(6, 2), 3));
  EXPECT_EQ(loop.streamed[cancelled].size(), 3u) << "the last token comes with the end";
  EXPECT_FALSE(loop.loop.step());
}

TEST(PreparedSteps, AreUsedWhileNothingChanges) {
  Loop loop(overlapped());  // pages of 4: a row needs a new one now and then
  const RequestId first = loop.submit(prompt_of(5, 1), greedy(20));
  const RequestId second = loop.submit(prompt_of(6, 2), greedy(12));
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(first).token_ids, expected_output(prompt_of(5, 1), 20));
  EXPECT_EQ(loop.output(second).token_ids, expected_output(prompt_of(6, 2), 12));
  const Statistics statistics = loop.loop.statistics();
  EXPECT_EQ(statistics.decode_steps, 19);
  EXPECT_EQ(statistics.prepared_steps, 18) << "all but the first: who has all tokens is known to leave";
  EXPECT_EQ(statistics.dropped_preparations, 0);
}

TEST(PreparedSteps, AreDroppedWhenARequestEndsOrJoinsAndNotWhenOneIsCancelled) {
  Loop loop(overlapped());
  SamplingParameters ends = greedy(50);
  ends.stop_token_ids = {expected_output(prompt_of(5, 1), 5).back()};
  const RequestId ended = loop.submit(prompt_of(5, 1), ends);
  const RequestId cancelled = loop.submit(prompt_of(6, 2), greedy(50));
  const RequestId stays = loop.submit(prompt_of(4, 3), greedy(30));
  while (!loop.outputs.contains(ended)) loop.loop.step();
  const size_t length = loop.output(ended).token_ids.size();
  EXPECT_EQ(loop.output(ended).token_ids, expected_output(prompt_of(5, 1), static_cast<int32_t>(length)));
  EXPECT_EQ(loop.loop.statistics().dropped_preparations, 1);
  loop.loop.step();
  loop.loop.cancel(cancelled);
  loop.loop.step();
  EXPECT_EQ(loop.loop.statistics().dropped_preparations, 1);
  const RequestId joined = loop.submit(prompt_of(7, 4), greedy(3));
  loop.loop.run_until_done();
  EXPECT_EQ(loop.loop.statistics().dropped_preparations, 2);
  EXPECT_EQ(loop.output(joined).token_ids, expected_output(prompt_of(7, 4), 3));
  EXPECT_EQ(loop.output(stays).token_ids, expected_output(prompt_of(4, 3), 30));
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
}

// All that a batch says.
std::vector<std::vector<int32_t>> content_of(const replay::StepBatch& batch) {
  return {batch.token_ids,      batch.positions,    batch.slots,       batch.query_lengths, batch.kv_lengths,
          batch.sequence_slots, batch.block_tables, {batch.max_pages}, {batch.all_logits},  {batch.reads_prompts}};
}

class PreparedStepsUnderLoad : public testing::TestWithParam<int> {
 protected:
  struct Run {
    std::vector<std::vector<std::vector<int32_t>>> batches;
    std::map<RequestId, std::vector<int32_t>> outputs;
    std::vector<int32_t> free_pages;  // after each turn, and those of them that the prefix cache keeps
    Statistics statistics;
  };

  // The same comes before the same turns, and in the same callbacks, into a cache that is too small for it.
  Run run(bool prepare_steps) {
    std::mt19937 random(static_cast<unsigned>(GetParam()));
    const auto between = [&](int32_t low, int32_t high) {
      return std::uniform_int_distribution<int32_t>(low, high)(random);
    };
    LoopSetup setup = overlapped();
    setup.prepare_steps = prepare_steps;
    setup.page_size = between(1, 5);
    setup.kv_tokens = between(90, 160);
    setup.max_running = between(2, 7);
    setup.sequence_state = between(0, 3) == 0;
    setup.end_tokens = {3, 50};
    Loop loop(setup);
    Run result;
    loop.model.before_step = [&](const replay::StepBatch& batch) { result.batches.push_back(content_of(batch)); };
    std::vector<RequestId> sent;
    loop.on_event = [&](const TokenEvent&) {
      if (between(0, 60) == 0) loop.loop.cancel(sent[static_cast<size_t>(between(0, int32_t(sent.size()) - 1))]);
    };
    for (int turn = 0; turn < 400; ++turn) {
      if (between(0, 4) == 0 && loop.loop.waiting() < 6) {
        Request request;
        request.prompt = prompt_of(40, between(0, 2));  // few beginnings, which many share
        request.prompt.resize(static_cast<size_t>(between(1, 40)));
        request.sampling = greedy(between(1, 45));
        request.sampling.ignore_eos = between(0, 1) == 0;
        request.priority = between(0, 4) == 0 ? 1 : 0;
        sent.push_back(loop.submit(std::move(request)));
      }
      if (between(0, 40) == 0 && !sent.empty()) loop.loop.cancel(sent.back());
      if (between(0, 100) == 0) loop.pool.flush_cache();
      if (between(0, 30) == 0) loop.loop.settle();
      loop.loop.step();
      result.free_pages.push_back(loop.pool.free_pages());
      result.free_pages.push_back(loop.pool.cached_pages());
    }
    loop.loop.run_until_done();
    EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
    for (const auto& [id, output] : loop.outputs) result.outputs[id] = output.token_ids;
    result.statistics = loop.loop.statistics();
    return result;
  }
};

TEST_P(PreparedStepsUnderLoad, ChangeNoBatchNoPageAndNoPreemption) {
  const Run expected = run(false);
  const Run actual = run(true);
  ASSERT_EQ(actual.batches.size(), expected.batches.size());
  for (size_t i = 0; i < expected.batches.size(); ++i)
    ASSERT_EQ(actual.batches[i], expected.batches[i]) << "step " << i;
  EXPECT_EQ(actual.outputs, expected.outputs);
  EXPECT_EQ(actual.free_pages, expected.free_pages);
  EXPECT_EQ(actual.statistics.preemptions, expected.statistics.preemptions);
  EXPECT_EQ(actual.statistics.cached_tokens, expected.statistics.cached_tokens);
  EXPECT_EQ(expected.statistics.prepared_steps + expected.statistics.dropped_preparations, 0);
  EXPECT_GT(actual.statistics.prepared_steps, 50);
  EXPECT_GT(actual.statistics.dropped_preparations, 10);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PreparedStepsUnderLoad, testing::Range(0, 6));

class OverlapFailure : public testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kOff); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }
};

TEST_F(OverlapFailure, OfAStepThatRunsEndsItsRequestsAndTheNextOnesRun) {
  Loop loop(overlapped());
  int decoded = 0;
  loop.model.before_step = [&](const replay::StepBatch& batch) {
    if (batch.is_decode() && ++decoded == 3) throw Error(ErrorCode::kInternal, "the device has lost the step");
  };
  const RequestId bad = loop.submit(prompt_of(5, 1), greedy(50));
  const RequestId done = loop.submit(prompt_of(4, 3), greedy(2));
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(bad).finish, FinishReason::kError);
  EXPECT_THAT(loop.output(bad).error->message(), HasSubstr("lost the step"));
  EXPECT_EQ(loop.output(bad).token_ids, expected_output(prompt_of(5, 1), 3));
  EXPECT_EQ(loop.streamed[bad], loop.output(bad).token_ids);
  EXPECT_EQ(loop.output(done).token_ids, expected_output(prompt_of(4, 3), 2));
  const RequestId good = loop.submit(prompt_of(6, 2), greedy(10));
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(good).token_ids, expected_output(prompt_of(6, 2), 10));
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
}

TEST_F(OverlapFailure, OfIssuingAStepIsOneOfTheStep) {
  Loop loop(overlapped());
  const RequestId bad = loop.submit(prompt_of(5, 1), greedy(50));
  for (int i = 0; i < 3; ++i) loop.loop.step();
  loop.fail_issue = true;
  loop.loop.step();  // issues in vain, and tells what the step before has given
  EXPECT_EQ(loop.streamed[bad].size(), 4u);
  EXPECT_FALSE(loop.outputs.contains(bad));
  loop.fail_issue = false;
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(bad).finish, FinishReason::kError);
  EXPECT_THAT(loop.output(bad).error->message(), HasSubstr("cannot be issued"));
  EXPECT_EQ(loop.output(bad).token_ids, expected_output(prompt_of(5, 1), 4));
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
}

TEST_F(OverlapFailure, OfTheEngineEndsARequestWhoseStepRuns) {
  Loop loop(overlapped());
  const RequestId bad = loop.submit(prompt_of(5, 1), greedy(50));
  for (int i = 0; i < 3; ++i) loop.loop.step();
  ASSERT_TRUE(loop.issued);
  loop.loop.fail_all(Error(ErrorCode::kInternal, "broken"));
  EXPECT_FALSE(loop.issued);
  EXPECT_EQ(loop.output(bad).finish, FinishReason::kError);
  EXPECT_EQ(loop.loop.open_requests(), 0);
}

// Requests of all kinds on the bundled model, in a cache too small for them.
class OverlapOnModel : public testing::TestWithParam<std::tuple<replay::Mode, int>> {
 protected:
  static EngineOptions options(bool overlap) {
    EngineOptions result;
    result.mode = std::get<0>(GetParam());
    result.buckets.sizes = {1, 2, 4};
    result.max_running = 5;  // the last one runs without a graph
    result.max_context = 128;
    result.kv_tokens = 112;
    result.max_prefill_tokens = 24;
    result.poison = true;
    result.overlap = overlap;
    result.capture_at_once_milliseconds = 0;
    result.sampling_threads = overlap ? 3 : 1;
    return result;
  }

  Request request(std::mt19937& random) {
    const auto between = [&](int32_t low, int32_t high) {
      return std::uniform_int_distribution<int32_t>(low, high)(random);
    };
    Request result;
    result.prompt = mini_tokenizer().encode("Tom has " + std::to_string(between(1, 9)) + " apples and buys 3 more.");
    SamplingParameters& sampling = result.sampling;
    sampling.temperature = between(0, 1);
    sampling.seed = static_cast<uint64_t>(between(1, 1000));
    sampling.max_new_tokens = between(1, 60);
    sampling.ignore_eos = between(0, 2) > 0;
    sampling.min_new_tokens = std::min(between(0, 5), sampling.max_new_tokens);
    if (between(0, 2) == 0) sampling.stop = {between(0, 1) == 0 ? "e" : ". ", "3"};
    sampling.keep_stop = between(0, 3) == 0;
    if (between(0, 2) == 0) sampling.repetition_penalty = 1.3;
    if (between(0, 2) == 0) sampling.presence_penalty = 0.5;
    if (between(0, 3) == 0) sampling.logprobs = 2;
    if (between(0, 3) == 0) sampling.logit_bias = {{between(0, 50), 3.0f}};
    if (between(0, 4) == 0) result.prompt_logprobs = 1;
    result.priority = between(0, 4) == 0 ? 1 : 0;
    return result;
  }

  struct Told {
    std::vector<int32_t> tokens;
    std::string text;
    std::vector<float> logprobs;
    RequestOutput output;
  };

  /// The same requests come before the same turns; some leave after so many tokens.
  std::vector<Told> run(bool overlap, Statistics& statistics) {
    const auto engine = make_mini_engine(options(overlap));
    std::mt19937 random(static_cast<unsigned>(std::get<1>(GetParam())));
    std::vector<Told> told(24);
    int open = 0;
    for (size_t i = 0; i < told.size(); ++i) {
      Request next = request(random);
      const size_t leaves_after = random() % 5 == 0 ? 1 + random() % 10 : 1000;
      ++open;
      next.on_token = [&, i, leaves_after](const TokenEvent& event) {
        if (event.token) told[i].tokens.push_back(*event.token);
        if (event.logprobs != nullptr) told[i].logprobs.push_back(event.logprobs->chosen.logprob);
        told[i].text += event.text;
        if (event.output != nullptr) {
          told[i].output = *event.output;
          --open;
        } else if (told[i].tokens.size() >= leaves_after) {
          engine->cancel(event.request);
        }
      };
      engine->submit(std::move(next));
      for (size_t turns = random() % 4; turns > 0; --turns) engine->step();
    }
    engine->run_until_done();
    EXPECT_EQ(open, 0);
    EXPECT_EQ(engine->open_requests(), 0);
    EXPECT_EQ(engine->kv_pool().free_pages(), engine->kv_pool().usable_pages());
    statistics = engine->statistics();
    return told;
  }
};

TEST_P(OverlapOnModel, ChangesNothingOfWhatRequestsGet) {
  set_log_level(LogLevel::kError);
  Statistics without, with;
  const std::vector<Told> expected = run(false, without);
  const std::vector<Told> actual = run(true, with);
  set_log_level(LogLevel::kInfo);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual[i].tokens, expected[i].tokens) << i;
    EXPECT_EQ(actual[i].text, expected[i].text) << i;
    EXPECT_EQ(actual[i].logprobs, expected[i].logprobs) << i;
    EXPECT_EQ(actual[i].output.token_ids, expected[i].output.token_ids) << i;
    EXPECT_EQ(actual[i].output.text, expected[i].output.text) << i;
    EXPECT_EQ(actual[i].output.finish, expected[i].output.finish) << i;
    EXPECT_EQ(actual[i].output.stop_string, expected[i].output.stop_string) << i;
    EXPECT_EQ(actual[i].output.prompt_logprobs.size(), expected[i].output.prompt_logprobs.size()) << i;
  }
  EXPECT_GT(without.cancelled_requests, 0);
  EXPECT_EQ(with.cancelled_requests, without.cancelled_requests);
  EXPECT_EQ(with.generated_tokens, without.generated_tokens);
  EXPECT_GT(with.preemptions, 0);
  EXPECT_GT(with.prepared_steps, 20);
  EXPECT_GT(with.dropped_preparations, 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, OverlapOnModel,
                         testing::Combine(testing::Values(replay::Mode::kFull, replay::Mode::kPiecewise,
                                                          replay::Mode::kForceEager, replay::Mode::kEager),
                                          testing::Range(1, 4)),
                         [](const auto& tested) {
                           return std::string(replay::name_of(std::get<0>(tested.param))) +
                                  std::to_string(std::get<1>(tested.param));
                         });

TEST(Overlap, IsForDevicesThatHaveCoresOfTheirOwn) {
  EXPECT_TRUE(mini_machine().device->capabilities().shares_host_cores);
  EXPECT_EQ(make_mini_engine({})->options().overlap, std::optional(false));
}

TEST(Overlap, MembersThatNeedTheDeviceWaitForTheStep) {
  EngineOptions options;
  options.max_running = 2;
  options.max_context = 128;
  options.overlap = true;
  const auto engine = make_mini_engine(options);
  const std::vector<int32_t> prompt = mini_tokenizer().encode("Tom has 3 apples and");
  const std::vector<float> expected = make_mini_engine(options)->prompt_logits(prompt);
  std::vector<int32_t> tokens;
  const auto submit = [&] {
    Request request;
    request.prompt = prompt;
    request.sampling = greedy(12);
    request.sampling.ignore_eos = true;
    request.on_token = [&](const TokenEvent& event) {
      if (event.token) tokens.push_back(*event.token);
    };
    engine->submit(std::move(request));
  };
  submit();
  engine->run_until_done();
  const std::vector<int32_t> alone = std::exchange(tokens, {});
  submit();
  engine->step();
  EXPECT_EQ(engine->prompt_logits(prompt), expected);
  engine->step();
  engine->capture();
  engine->step();
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "overlap_profile";
  engine->start_profile(directory);
  engine->step();
  engine->step();
  EXPECT_THAT(engine->stop_profile(), HasSubstr("Trace is saved"));
  std::filesystem::remove_all(directory);
  engine->run_until_done();
  EXPECT_EQ(tokens, alone);
  submit();
  engine->step();  // and goes while one runs
}

TEST(Overlap, AServiceAnswersCancelsAndDrains) {
  EngineOptions options;
  options.buckets.sizes = {1, 2, 4};
  options.max_running = 4;
  options.max_context = 128;
  options.kv_tokens = 256;
  options.overlap = true;
  EngineService service([&] { return make_mini_engine(options); }, {});
  while (service.state() == ServiceState::kLoading) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::atomic<int> ended = 0;
  const auto client = [&](int number) {
    for (int i = 0; i < 6; ++i) {
      std::promise<void> end;
      std::atomic<RequestId> id = 0;
      Request request;
      request.prompt = mini_tokenizer().encode("Tom has " + std::to_string(number + i) + " apples.");
      request.sampling.max_new_tokens = 40;
      request.sampling.seed = 7;
      int tokens = 0;
      request.on_token = [&](const TokenEvent& event) {
        if (event.token && ++tokens == 5 && i % 3 == 0) service.cancel(id);
        if (event.output != nullptr) end.set_value();
      };
      id = service.submit(std::move(request));
      if (i % 3 == 1) service.run([](Engine& engine) { engine.flush_prefix_cache(); }).get();
      end.get_future().wait();
      ++ended;
    }
  };
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back(client, i);
  for (std::thread& thread : clients) thread.join();
  EXPECT_EQ(ended, 18);
  service
      .run([](Engine& engine) {
        EXPECT_EQ(engine.open_requests(), 0);
        EXPECT_EQ(engine.kv_pool().free_pages(), engine.kv_pool().usable_pages());
      })
      .get();
  service.drain(std::chrono::seconds(10));
  EXPECT_EQ(service.state(), ServiceState::kStopped);
}

}  // namespace
}  // namespace reprise::engine
