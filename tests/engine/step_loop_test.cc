#include "engine/step_loop.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "engine/allocation_counter.h"
#include "engine/step_loop_harness.h"

namespace reprise::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(StepLoop, ProducesWhatTheModelSays) {
  Loop loop;
  const RequestId id = loop.submit(prompt_of(7, 1), greedy(9));
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(id).token_ids, expected_output(prompt_of(7, 1), 9));
  EXPECT_EQ(loop.streamed.at(id), loop.output(id).token_ids);
  EXPECT_EQ(loop.output(id).finish, FinishReason::kLength);
  EXPECT_EQ(loop.output(id).prompt_tokens, 7);
}

TEST(StepLoop, OutputDoesNotDependOnChunksPagesOrCompany) {
  for (const int32_t chunk : {1, 2, 5, 16, 100}) {
    for (const int32_t page_size : {1, 3, 16}) {
      Loop loop({.page_size = page_size, .kv_tokens = 300, .max_running = 3, .max_prefill_tokens = chunk});
      std::map<RequestId, std::pair<std::vector<int32_t>, int32_t>> requests;
      for (int32_t i = 0; i < 9; ++i) {
        const std::vector<int32_t> prompt = prompt_of(1 + i * 5, i);
        requests[loop.submit(prompt, greedy(3 + i))] = {prompt, 3 + i};
      }
      loop.loop.run_until_done();
      for (const auto& [id, request] : requests) {
        ASSERT_EQ(loop.output(id).token_ids, expected_output(request.first, request.second));
      }
      EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
      EXPECT_EQ(loop.pool.free_sequence_slots(), 3);
    }
  }
}

TEST(StepLoop, SampledOutputDependsOnSeedAloneAndNotOnCompany) {
  SamplingParameters sampling;
  sampling.max_new_tokens = 20;
  sampling.seed = 123;
  sampling.temperature = 2;
  Loop alone;
  const RequestId single = alone.submit(prompt_of(6, 1), sampling);
  alone.loop.run_until_done();
  Loop crowd({.max_prefill_tokens = 3});
  for (int32_t i = 0; i < 3; ++i) crowd.submit(prompt_of(4 + i, 50 + i), greedy(5 + i));
  const RequestId among = crowd.submit(prompt_of(6, 1), sampling);
  sampling.seed = 124;
  const RequestId other_seed = crowd.submit(prompt_of(6, 1), sampling);
  crowd.loop.run_until_done();
  EXPECT_EQ(crowd.output(among).token_ids, alone.output(single).token_ids);
  EXPECT_NE(crowd.output(other_seed).token_ids, alone.output(single).token_ids);
  EXPECT_EQ(alone.output(single).seed, 123u);
  EXPECT_NE(alone.output(single).token_ids, expected_output(prompt_of(6, 1), 20));
}

TEST(StepLoop, ATurnDecodesAllAndReadsOneChunkOfSeveralPrompts) {
  Loop loop({.max_prefill_tokens = 10});
  std::vector<std::string> steps;
  loop.model.before_step = [&](const replay::StepBatch& batch) {
    steps.push_back(fmt::format("{}", fmt::join(batch.query_lengths, "+")));
  };
  for (const int32_t length : {4, 9, 3}) loop.submit(prompt_of(length, length), greedy(4));
  EXPECT_TRUE(loop.loop.step());
  EXPECT_THAT(steps, ElementsAre("4+3+3"));
  EXPECT_TRUE(loop.loop.step());
  EXPECT_THAT(steps, ElementsAre("4+3+3", "1+1", "6"));
  EXPECT_TRUE(loop.loop.step());
  EXPECT_THAT(steps, ElementsAre("4+3+3", "1+1", "6", "1+1+1"));
  loop.loop.run_until_done();
  EXPECT_FALSE(loop.loop.step());
  EXPECT_EQ(loop.loop.statistics().prefill_tokens, 16);
  EXPECT_EQ(loop.loop.statistics().prefill_steps, 2);
  EXPECT_EQ(loop.loop.statistics().decode_tokens, 9);
  EXPECT_EQ(loop.loop.statistics().decode_steps, 4);
  EXPECT_EQ(loop.loop.statistics().finished_requests, 3);
  EXPECT_GT(loop.loop.statistics().decode_tokens_per_second(), 0);
}

TEST(StepLoop, ALongPromptLeavesHalfOfEachStepToTheOthers) {
  Loop loop({.kv_tokens = 4000, .max_running = 4, .max_prefill_tokens = 10});
  std::vector<std::string> steps;
  loop.model.before_step = [&](const replay::StepBatch& batch) {
    if (!batch.is_decode()) steps.push_back(fmt::format("{}", fmt::join(batch.query_lengths, "+")));
  };
  for (const int32_t length : {32, 20, 4, 3}) loop.submit(prompt_of(length, length), greedy(1));
  loop.loop.run_until_done();
  EXPECT_THAT(steps, ElementsAre("5+2+3", "5+3+2", "5+5", "5+5", "5+5", "7+2"));
}

TEST(StepLoop, NoneOvertakesAnEarlierOneIntoTheCache) {
  // Ten pages. The first takes five and will take more, the second needs seven and waits, and the third, small, waits
  // behind it.
  Loop loop({.kv_tokens = 40});
  const RequestId first = loop.submit(prompt_of(20, 1), greedy(9));
  const RequestId second = loop.submit(prompt_of(25, 2), greedy(8));
  const RequestId third = loop.submit(prompt_of(2, 3), greedy(2));
  std::vector<RequestId> ends;
  loop.on_event = [&](const TokenEvent& event) {
    if (event.output != nullptr) ends.push_back(event.request);
  };
  loop.loop.step();
  EXPECT_EQ(loop.loop.running(), 1);
  EXPECT_EQ(loop.loop.waiting(), 2);
  EXPECT_EQ(loop.pool.free_pages(), 5);
  loop.loop.run_until_done();
  EXPECT_THAT(ends, ElementsAre(first, third, second));
}

TEST(StepLoop, B47ThePoolCanBeFilledToItsLastPage) {
  Loop loop({.kv_tokens = 40});
  const RequestId id = loop.submit(prompt_of(35, 1), greedy(6));  // the last token enters no page
  int32_t least_free = loop.pool.free_pages();
  loop.model.before_step = [&](const replay::StepBatch&) { least_free = std::min(least_free, loop.pool.free_pages()); };
  loop.loop.run_until_done();
  EXPECT_EQ(least_free, 0);
  EXPECT_EQ(loop.output(id).token_ids, expected_output(prompt_of(35, 1), 6));
  EXPECT_EQ(loop.output(id).preemptions, 0);
}

void expect_refused(Loop& loop, std::vector<int32_t> prompt, const SamplingParameters& sampling, ErrorCode code,
                    const std::string& text) {
  try {
    loop.submit(std::move(prompt), sampling);
    ADD_FAILURE() << "accepted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_THAT(error.message(), HasSubstr(text));
  }
}

TEST(StepLoop, RefusesAtOnceWhatCanNeverRun) {
  Loop loop({.kv_tokens = 40, .max_context = 60});
  expect_refused(loop, prompt_of(35, 1), greedy(7), ErrorCode::kResourceExhausted, "11 pages");
  expect_refused(loop, prompt_of(50, 1), greedy(11), ErrorCode::kInvalidArgument, "context of 60");
  expect_refused(loop, prompt_of(1, 1), greedy(std::numeric_limits<int32_t>::max()), ErrorCode::kInvalidArgument,
                 "2147483647");
  expect_refused(loop, {}, greedy(1), ErrorCode::kInvalidArgument, "no tokens");
  expect_refused(loop, {1, kVocabulary}, greedy(1), ErrorCode::kInvalidArgument, "token 1 of the prompt is 97");
  expect_refused(loop, {-1}, greedy(1), ErrorCode::kInvalidArgument, "token 0 of the prompt is -1");
  SamplingParameters sampling = greedy(1);
  sampling.stop = {"x"};
  expect_refused(loop, {1}, sampling, ErrorCode::kInvalidArgument, "tokenizer");
  sampling = greedy(1);
  sampling.repetition_penalty = 0;
  expect_refused(loop, {1}, sampling, ErrorCode::kInvalidArgument, "repetition_penalty is 0");
  EXPECT_FALSE(loop.loop.step());
}

TEST(StepLoop, EndTokensAndStopTokensEndARequest) {
  const std::vector<int32_t> output = expected_output(prompt_of(5, 6), 12);
  ASSERT_EQ(std::set<int32_t>(output.begin(), output.end()).size(), 12u);
  Loop loop({.end_tokens = {output[4]}});
  const RequestId by_model = loop.submit(prompt_of(5, 6), greedy(12));
  SamplingParameters sampling = greedy(12);
  sampling.ignore_eos = true;
  const RequestId ignoring = loop.submit(prompt_of(5, 6), sampling);
  sampling.stop_token_ids = {output[7]};
  const RequestId by_token = loop.submit(prompt_of(5, 6), sampling);
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(by_model).token_ids.size(), 5u);
  EXPECT_EQ(loop.output(by_model).finish, FinishReason::kStop);
  EXPECT_EQ(loop.output(ignoring).token_ids.size(), 12u);
  EXPECT_EQ(loop.output(ignoring).finish, FinishReason::kLength);
  EXPECT_EQ(loop.output(by_token).token_ids.size(), 8u);
  EXPECT_EQ(loop.output(by_token).finish, FinishReason::kStop);
}

TEST(StepLoop, NoNewTokensIsAnEmptyOutput) {
  Loop loop;
  const RequestId id = loop.submit(prompt_of(5, 1), greedy(0));
  EXPECT_TRUE(loop.loop.step());
  EXPECT_TRUE(loop.output(id).token_ids.empty());
  EXPECT_EQ(loop.output(id).finish, FinishReason::kLength);
  EXPECT_EQ(loop.model.steps, 0);
}

TEST(StepLoop, B61CancelFreesPagesAtOnceWhereverTheRequestIs) {
  Loop loop({.max_running = 2});
  const RequestId decoding = loop.submit(prompt_of(5, 1), greedy(50));
  const RequestId reading = loop.submit(prompt_of(60, 2), greedy(5));
  const RequestId waiting = loop.submit(prompt_of(5, 3), greedy(5));
  loop.loop.step();
  loop.loop.step();
  ASSERT_EQ(loop.loop.waiting(), 1);
  for (const RequestId id : {decoding, reading, waiting}) EXPECT_TRUE(loop.loop.cancel(id));
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
  EXPECT_FALSE(loop.loop.cancel(decoding));
  EXPECT_FALSE(loop.loop.cancel(12345));
  EXPECT_TRUE(loop.loop.step());
  for (const RequestId id : {decoding, reading, waiting}) {
    EXPECT_EQ(loop.output(id).finish, FinishReason::kCancelled);
  }
  EXPECT_EQ(loop.output(decoding).token_ids.size(), 2u);
  EXPECT_FALSE(loop.loop.step());
}

TEST(StepLoop, CallbacksMayCancelThemselvesAndOthersAndSubmit) {
  Loop loop;
  const RequestId first = loop.submit(prompt_of(5, 1), greedy(50));
  const RequestId second = loop.submit(prompt_of(6, 2), greedy(50));
  RequestId third = 0;
  loop.on_event = [&](const TokenEvent& event) {
    if (event.request != first || loop.streamed[first].size() != 3 || third != 0) return;
    third = loop.submit(prompt_of(3, 3), greedy(4));
    EXPECT_TRUE(loop.loop.cancel(second));
    EXPECT_TRUE(loop.loop.cancel(first));
  };
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(first).finish, FinishReason::kCancelled);
  EXPECT_EQ(loop.output(first).token_ids.size(), 3u);
  EXPECT_EQ(loop.output(second).finish, FinishReason::kCancelled);
  EXPECT_EQ(loop.streamed.at(second), loop.output(second).token_ids);
  EXPECT_EQ(loop.output(third).token_ids, expected_output(prompt_of(3, 3), 4));
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
}

TEST(StepLoop, CutsPromptsIntoReplayedSizesInTurnWithShorterOnesTogether) {
  Loop loop({.max_running = 4, .max_prefill_tokens = 16, .replayed_sizes = {4, 16}});
  std::vector<std::vector<int32_t>> steps;  // tokens of each sequence
  loop.model.before_step = [&](const replay::StepBatch& batch) {
    if (!batch.is_decode()) steps.push_back(batch.query_lengths);
  };
  const std::vector<int32_t> lengths = {26, 3, 2, 7};
  std::vector<RequestId> ids;
  for (const int32_t length : lengths) ids.push_back(loop.submit(prompt_of(length, length), greedy(5)));
  loop.loop.run_until_done();
  EXPECT_THAT(steps, ElementsAre(ElementsAre(16), ElementsAre(3, 2), ElementsAre(4), ElementsAre(4), ElementsAre(2),
                                 ElementsAre(4), ElementsAre(3)));
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(loop.output(ids[i]).token_ids, expected_output(prompt_of(lengths[i], lengths[i]), 5));
  }
}

// Expected failures need no lines on the terminal.
class StepLoopFailure : public testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kOff); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }
};

TEST_F(StepLoopFailure, OfACallbackEndsItsRequestOnly) {
  Loop loop;
  const RequestId bad = loop.submit(prompt_of(5, 1), greedy(50));
  const RequestId good = loop.submit(prompt_of(6, 2), greedy(10));
  loop.on_event = [&](const TokenEvent& event) {
    if (event.request == bad && loop.streamed[bad].size() == 4) throw std::runtime_error("the client is gone");
  };
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(bad).finish, FinishReason::kError);
  EXPECT_THAT(loop.output(bad).error->message(), HasSubstr("the client is gone"));
  EXPECT_EQ(loop.output(good).token_ids, expected_output(prompt_of(6, 2), 10));
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
}

TEST_F(StepLoopFailure, OfASamplingEndsItsRequestOnly) {
  Loop loop;
  loop.model.change_logits = [](std::span<float> logits, std::span<const int32_t> tokens) {
    if (tokens.size() == 8 && tokens[0] == prompt_of(5, 1)[0]) logits[11] = std::nanf("");
  };
  const RequestId bad = loop.submit(prompt_of(5, 1), greedy(50));
  const RequestId good = loop.submit(prompt_of(6, 2), greedy(10));
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(bad).finish, FinishReason::kError);
  EXPECT_THAT(loop.output(bad).error->message(), HasSubstr("token 11 is nan"));
  EXPECT_EQ(loop.output(bad).token_ids, expected_output(prompt_of(5, 1), 3));
  EXPECT_EQ(loop.output(good).token_ids, expected_output(prompt_of(6, 2), 10));
}

TEST_F(StepLoopFailure, OfAStepEndsItsRequestsAndTheNextOnesRun) {
  Loop loop;
  bool fail = true;
  loop.model.before_step = [&](const replay::StepBatch& batch) {
    if (fail && batch.is_decode()) throw Error(ErrorCode::kOutOfMemory, "the device is full");
  };
  const RequestId bad = loop.submit(prompt_of(5, 1), greedy(50));
  loop.loop.run_until_done();
  fail = false;
  const RequestId good = loop.submit(prompt_of(6, 2), greedy(10));
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(bad).finish, FinishReason::kError);
  EXPECT_EQ(loop.output(bad).error->code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(loop.output(bad).token_ids.size(), 1u);
  EXPECT_EQ(loop.output(good).token_ids, expected_output(prompt_of(6, 2), 10));
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
}

TEST(StepLoop, LogprobsComeWithEachTokenWhenAskedFor) {
  Loop loop;
  SamplingParameters sampling = greedy(5);
  sampling.logprobs = 2;
  const RequestId id = loop.submit(prompt_of(5, 1), sampling);
  int events = 0;
  loop.on_event = [&](const TokenEvent& event) {
    ASSERT_NE(event.logprobs, nullptr);
    EXPECT_EQ(event.logprobs->chosen.token, *event.token);
    ++events;
  };
  loop.loop.run_until_done();
  EXPECT_EQ(events, 5);
  const RequestOutput& output = loop.output(id);
  ASSERT_EQ(output.logprobs.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(output.logprobs[i].chosen.token, output.token_ids[i]);
    ASSERT_EQ(output.logprobs[i].alternatives.size(), 2u);
    EXPECT_EQ(output.logprobs[i].alternatives[0].token, output.token_ids[i]);
    EXPECT_LT(output.logprobs[i].chosen.logprob, 0);
  }
}

TEST(StepLoop, B66RepetitionPenaltyActsOnPromptAndOutput) {
  // The model wants token 1, then 2, then 3 and so on down; each may come once.
  Loop loop;
  loop.model.change_logits = [](std::span<float> logits, std::span<const int32_t>) {
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = 10.0f - static_cast<float>(i) * 0.05f;
  };
  SamplingParameters sampling = greedy(4);
  sampling.repetition_penalty = 2;
  const RequestId penalised = loop.submit({0, 2}, sampling);
  const RequestId plain = loop.submit({0, 2}, greedy(4));
  loop.loop.run_until_done();
  EXPECT_THAT(loop.output(penalised).token_ids, ElementsAre(1, 3, 4, 5));
  EXPECT_THAT(loop.output(plain).token_ids, ElementsAre(0, 0, 0, 0));
}

TEST(StepLoop, ASteadyDecodeStepAllocatesNothing) {
  Loop loop({.kv_tokens = 4000, .max_running = 4, .max_context = 1000});
  SamplingParameters sampled;
  sampled.max_new_tokens = 500;
  sampled.top_p = 0.9;
  sampled.repetition_penalty = 1.1;
  int64_t tokens = 0;
  const auto count = [&tokens](const TokenEvent&) { ++tokens; };
  for (int32_t i = 0; i < 3; ++i) loop.loop.submit({prompt_of(5 + i, i), greedy(500), true, count});
  loop.loop.submit({prompt_of(9, 9), sampled, true, count});
  for (int i = 0; i < 20; ++i) loop.loop.step();
  const int64_t tokens_before = tokens;
  const int64_t before = allocations();
  for (int i = 0; i < 200; ++i) loop.loop.step();
  EXPECT_EQ(allocations() - before, 0);
  EXPECT_EQ(tokens - tokens_before, 800);
  // The counter counts.
  ::operator delete(::operator new(3));
  EXPECT_EQ(allocations() - before, counts_allocations() ? 1 : 0);
}

}  // namespace
}  // namespace reprise::engine
