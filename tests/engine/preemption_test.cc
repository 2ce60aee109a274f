#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/mini_engine.h"
#include "engine/step_loop_harness.h"

namespace reprise::engine {
namespace {

using testing::ElementsAre;

// Six requests of 30 + 60 tokens in a cache of 20 pages of 16, in which three of them fit.
TEST(Preemption, B57OutputsAreThoseOfRequestsThatHaveTheCacheForThemselves) {
  for (const bool sequence_state : {true, false}) {
    Loop loop({.page_size = 16, .kv_tokens = 320, .max_running = 6, .sequence_state = sequence_state});
    std::vector<RequestId> ids;
    for (int32_t i = 0; i < 6; ++i) ids.push_back(loop.submit(prompt_of(30, i), greedy(60)));
    loop.loop.run_until_done();
    int32_t preemptions = 0;
    for (int32_t i = 0; i < 6; ++i) {
      const RequestOutput& output = loop.output(ids[static_cast<size_t>(i)]);
      EXPECT_EQ(output.token_ids, expected_output(prompt_of(30, i), 60));
      EXPECT_EQ(loop.streamed.at(ids[static_cast<size_t>(i)]), output.token_ids) << "nothing is told twice";
      EXPECT_EQ(output.finish, FinishReason::kLength);
      EXPECT_EQ(output.prompt_tokens, 30);
      EXPECT_EQ(output.cached_tokens, 0) << "what is computed again is no hit";
      preemptions += output.preemptions;
    }
    EXPECT_EQ(loop.output(ids[0]).preemptions, 0) << "the first one loses nothing";
    const Statistics statistics = loop.loop.statistics();
    EXPECT_EQ(statistics.preemptions, preemptions);
    EXPECT_GT(preemptions, 0);
    EXPECT_LE(preemptions, 6);
    EXPECT_EQ(statistics.generated_tokens, 6 * 60);
    EXPECT_EQ(statistics.cached_tokens, 0);
    EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
    EXPECT_EQ(loop.pool.free_sequence_slots(), 6);
  }
}

Request mixed_request(int32_t index) {
  Request request;
  request.prompt = mini_tokenizer().encode("Question " + std::to_string(index) +
                                           ": Tom has 4 apples and buys 3 more. How many apples does he have now?");
  request.sampling.max_new_tokens = 60;
  request.sampling.ignore_eos = true;
  request.sampling.temperature = index % 2 == 0 ? 0 : 1;
  request.sampling.seed = static_cast<uint64_t>(index);
  request.sampling.logprobs = 2;
  if (index >= 2) {
    request.sampling.repetition_penalty = 1.3;
    request.sampling.presence_penalty = 0.5;
    request.sampling.frequency_penalty = 0.25;
    request.sampling.logit_bias = {{100, 2.0f}};
  }
  if (index >= 4) request.sampling.stop = {"the", "zzz"};
  if (index == 5) request.prompt_logprobs = 1;
  return request;
}

std::vector<RequestOutput> outputs_of_six(Engine& engine, bool together) {
  std::vector<RequestOutput> outputs(6);
  for (int32_t i = 0; i < 6; ++i) {
    Request request = mixed_request(i);
    request.on_token = [&outputs, i](const TokenEvent& event) {
      if (event.output != nullptr) outputs[static_cast<size_t>(i)] = *event.output;
    };
    engine.submit(std::move(request));
    if (!together) engine.run_until_done();
  }
  engine.run_until_done();
  return outputs;
}

void expect_same(const std::vector<PositionLogprobs>& a, const std::vector<PositionLogprobs>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].chosen.token, b[i].chosen.token);
    EXPECT_EQ(a[i].chosen.logprob, b[i].chosen.logprob);
    ASSERT_EQ(a[i].alternatives.size(), b[i].alternatives.size());
    for (size_t j = 0; j < a[i].alternatives.size(); ++j) {
      EXPECT_EQ(a[i].alternatives[j].token, b[i].alternatives[j].token);
      EXPECT_EQ(a[i].alternatives[j].logprob, b[i].alternatives[j].logprob);
    }
  }
}

TEST(Preemption, B57TextSeedPenaltiesLogprobsAndStopStringsSurviveIt) {
  EngineOptions options;
  options.max_running = 6;
  options.max_context = 128;
  options.poison = true;
  options.max_prefill_tokens = 40;
  const auto wide = make_mini_engine(options);
  const std::vector<RequestOutput> expected = outputs_of_six(*wide, false);
  EXPECT_EQ(wide->statistics().preemptions, 0);
  options.kv_tokens = 320;
  for (const bool prefix_cache : {true, false}) {
    options.prefix_cache = prefix_cache;
    const auto tight = make_mini_engine(options, 2);
    const std::vector<RequestOutput> outputs = outputs_of_six(*tight, true);
    EXPECT_GT(tight->statistics().preemptions, 0);
    EXPECT_LE(tight->statistics().preemptions, 6);
    int64_t generated = 0;
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(outputs[i].token_ids, expected[i].token_ids) << i;
      EXPECT_EQ(outputs[i].text, expected[i].text) << i;
      EXPECT_EQ(outputs[i].stop_string, expected[i].stop_string) << i;
      EXPECT_EQ(outputs[i].finish, expected[i].finish) << i;
      expect_same(outputs[i].logprobs, expected[i].logprobs);
      expect_same(outputs[i].prompt_logprobs, expected[i].prompt_logprobs);
      generated += static_cast<int64_t>(outputs[i].token_ids.size());
    }
    EXPECT_EQ(tight->statistics().generated_tokens, generated);
    EXPECT_EQ(tight->kv_pool().free_pages(), tight->kv_pool().usable_pages());
  }
}

TEST(Preemption, TakesTheLeastUrgentAndOfEqualOnesTheLatest) {
  Loop loop({.page_size = 4, .kv_tokens = 60, .max_running = 3, .sequence_state = false});
  Request request;
  request.sampling = greedy(30);
  std::vector<RequestId> ids;
  for (const int32_t priority : {0, -1, 5}) {
    request.prompt = prompt_of(8, priority + 10);
    request.priority = priority;
    ids.push_back(loop.submit(request));
  }
  std::vector<RequestId> ends;
  loop.on_event = [&](const TokenEvent& event) {
    if (event.output != nullptr) ends.push_back(event.request);
  };
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(ids[2]).preemptions, 0);
  EXPECT_GT(loop.output(ids[1]).preemptions, 0);
  EXPECT_THAT(ends, ElementsAre(ids[2], ids[0], ids[1]));
  for (const int32_t priority : {0, -1, 5}) {
    const size_t i = priority == 0 ? 0 : priority == -1 ? 1 : 2;
    EXPECT_EQ(loop.output(ids[i]).token_ids, expected_output(prompt_of(8, priority + 10), 30));
  }
}

TEST(Preemption, WhoeverWaitsIsAdmittedByPriorityAndThenByAge) {
  Loop loop({.max_running = 1});
  Request request;
  request.sampling = greedy(2);
  std::vector<RequestId> ids;
  for (const int32_t priority : {0, 0, 7, -2, 7}) {
    request.prompt = prompt_of(5, 3);
    request.priority = priority;
    ids.push_back(loop.submit(request));
  }
  std::vector<RequestId> ends;
  loop.on_event = [&](const TokenEvent& event) {
    if (event.output != nullptr) ends.push_back(event.request);
  };
  loop.loop.run_until_done();
  EXPECT_THAT(ends, ElementsAre(ids[2], ids[4], ids[0], ids[1], ids[3]));
}

TEST(Preemption, B61APreemptedRequestCanBeCancelled) {
  Loop loop({.page_size = 16, .kv_tokens = 320, .max_running = 6, .sequence_state = false});
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 6; ++i) ids.push_back(loop.submit(prompt_of(30, i), greedy(60)));
  while (loop.loop.statistics().preemptions == 0) ASSERT_TRUE(loop.loop.step());
  EXPECT_GT(loop.loop.waiting(), 0);
  const size_t told = loop.streamed.at(ids[5]).size();
  EXPECT_GT(told, 0u);
  EXPECT_TRUE(loop.loop.cancel(ids[5]));
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(ids[5]).finish, FinishReason::kCancelled);
  EXPECT_EQ(loop.output(ids[5]).token_ids.size(), told);
  for (int32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(loop.output(ids[static_cast<size_t>(i)]).token_ids, expected_output(prompt_of(30, i), 60));
  }
}

TEST(Preemption, RequestsThatMayProduceMuchAndDoNotRunTogether) {
  // Each may take all of the cache; what they are expected to take decides.
  const std::vector<int32_t> output = expected_output(prompt_of(6, 1), 10);
  Loop loop({.page_size = 4, .kv_tokens = 200, .max_running = 4, .end_tokens = {output[9]}});
  std::vector<RequestId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(loop.submit(prompt_of(6, 1), greedy(100)));
  loop.loop.step();
  EXPECT_GE(loop.loop.running(), 3);
  loop.loop.run_until_done();
  for (const RequestId id : ids) EXPECT_EQ(loop.output(id).token_ids.size(), 10u);
  EXPECT_EQ(loop.loop.statistics().preemptions, 0);
}

}  // namespace
}  // namespace reprise::engine
