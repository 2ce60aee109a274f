// Requests of every kind come, go and get in each other's way, in caches that are too small for them.
#include <gtest/gtest.h>

#include <random>

#include "base/log.h"
#include "engine/step_loop_harness.h"

namespace reprise::engine {
namespace {

struct Sent {
  Request request;
  bool cancelled = false;
};

class SchedulerStress : public testing::TestWithParam<std::tuple<int, bool, bool>> {
 protected:
  void SetUp() override { set_log_level(LogLevel::kOff); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }

  int32_t between(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random_); }

  // Few beginnings, so that many requests share some.
  Request request() {
    Request result;
    result.prompt = prompt_of(40, between(0, 2));
    result.prompt.resize(static_cast<size_t>(between(1, 40)));
    if (between(0, 1) == 0) result.prompt.back() = between(0, kVocabulary - 1);
    result.sampling = greedy(between(0, 40));
    result.sampling.min_new_tokens = std::min(between(0, 4), result.sampling.max_new_tokens);
    result.priority = between(0, 3) == 0 ? between(-1, 1) : 0;
    if (between(0, 3) == 0) result.cache_salt = "salt";
    if (between(0, 5) == 0) {
      result.prompt_logprobs = between(0, 2);
      result.prompt_logprobs_start = between(0, static_cast<int32_t>(result.prompt.size()));
    }
    if (between(0, 3) == 0) result.sampling.repetition_penalty = 1.000001;  // changes no token, but keeps a history
    return result;
  }

  std::mt19937 random_;
};

TEST_P(SchedulerStress, EveryRequestGetsItsOwnOutputAndNoPageIsLost) {
  const auto [seed, sequence_state, overlap] = GetParam();
  random_.seed(static_cast<unsigned>(seed));
  LoopSetup setup;
  setup.page_size = between(1, 5);
  setup.kv_tokens = between(80, 160);  // of one request: up to 79
  setup.max_running = between(1, 6);
  setup.max_prefill_tokens = between(1, 30);
  setup.sequence_state = sequence_state;
  setup.overlap = overlap;
  if (between(0, 1) == 0) setup.replayed_sizes = {2, 5};
  setup.max_prefill_tokens = std::max(setup.max_prefill_tokens, 5);
  Loop loop(setup);
  std::map<RequestId, Sent> sent;
  std::vector<RequestId> open;
  const auto send = [&] {
    Request next = request();
    const RequestId id = loop.submit(next);
    sent[id].request = std::move(next);
    open.push_back(id);
  };
  loop.on_event = [&](const TokenEvent&) {
    if (between(0, 40) == 0) send();
    if (between(0, 40) == 0) {
      const RequestId victim = open[static_cast<size_t>(between(0, static_cast<int32_t>(open.size()) - 1))];
      if (loop.loop.cancel(victim)) sent[victim].cancelled = true;
    }
  };
  for (int turn = 0; turn < 600; ++turn) {
    if (between(0, 3) == 0 && loop.loop.waiting() < 10) send();
    loop.loop.step();
    if (between(0, 200) == 0) loop.pool.flush_cache();
  }
  loop.on_event = nullptr;
  loop.loop.run_until_done();

  int64_t produced = 0;
  for (const auto& [id, one] : sent) {
    const RequestOutput& output = loop.output(id);
    produced += static_cast<int64_t>(output.token_ids.size());
    const auto expected = expected_output(one.request.prompt, static_cast<int32_t>(output.token_ids.size()));
    ASSERT_EQ(output.token_ids, expected) << id;
    if (loop.streamed.contains(id)) {
      ASSERT_EQ(loop.streamed.at(id), output.token_ids) << id;
    }
    if (one.cancelled) continue;
    ASSERT_EQ(output.finish, FinishReason::kLength) << id;
    ASSERT_EQ(output.token_ids.size(), static_cast<size_t>(one.request.sampling.max_new_tokens)) << id;
    const size_t first = static_cast<size_t>(std::max(one.request.prompt_logprobs_start, 1));
    const size_t scored =
        one.request.prompt_logprobs ? one.request.prompt.size() - std::min(first, one.request.prompt.size()) : 0;
    ASSERT_EQ(output.prompt_logprobs.size(), scored) << id;
    for (size_t i = 0; i < scored; ++i) {
      ASSERT_EQ(output.prompt_logprobs[i].chosen.token, one.request.prompt[first + i]) << id;
    }
  }
  EXPECT_GT(sent.size(), 30u);
  const Statistics statistics = loop.loop.statistics();
  EXPECT_EQ(statistics.generated_tokens, produced);
  EXPECT_EQ(statistics.finished_requests, static_cast<int64_t>(sent.size()));
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
  EXPECT_EQ(loop.pool.free_sequence_slots(), setup.max_running);
  loop.pool.flush_cache();
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
  EXPECT_EQ(loop.pool.cached_pages(), 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerStress,
                         testing::Combine(testing::Range(0, 20), testing::Bool(), testing::Bool()),
                         [](const auto& tested) {
                           return "Seed" + std::to_string(std::get<0>(tested.param)) +
                                  (std::get<1>(tested.param) ? "WithState" : "WithCache") +
                                  (std::get<2>(tested.param) ? "Overlapped" : "");
                         });

}  // namespace
}  // namespace reprise::engine
