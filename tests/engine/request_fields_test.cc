// What requests may ask for, from the request to its output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "engine/mini_engine.h"
#include "engine/step_loop_harness.h"

namespace reprise::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Request request_for(std::vector<int32_t> prompt, const SamplingParameters& sampling) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = sampling;
  return request;
}

TEST(RequestFields, B63LogitBiasForcesTokensAndLogprobsStayFinite) {
  Loop loop;
  SamplingParameters sampling = greedy(4);
  sampling.temperature = 1;
  sampling.logprobs = 20;
  for (int32_t token = 0; token < kVocabulary; ++token) {
    if (token != 40) sampling.logit_bias.emplace_back(token, -100.0f);
  }
  const RequestId id = loop.submit(prompt_of(5, 1), sampling);
  loop.loop.run_until_done();
  const RequestOutput& output = loop.output(id);
  EXPECT_THAT(output.token_ids, ElementsAre(40, 40, 40, 40));
  for (const PositionLogprobs& position : output.logprobs) {
    EXPECT_TRUE(std::isfinite(position.chosen.logprob));
    EXPECT_EQ(position.alternatives.size(), 20u);
    EXPECT_NE(position.alternatives[0].token, 40) << "the model's own distribution has no bias";
  }
}

TEST(RequestFields, TheLeastTokensComeBeforeAnyThatEnds) {
  const std::vector<int32_t> output = expected_output(prompt_of(5, 6), 3);
  Loop loop({.end_tokens = {output[2]}});
  SamplingParameters sampling = greedy(12);
  EXPECT_EQ(sampling.min_new_tokens, 0);
  const RequestId short_one = loop.submit(prompt_of(5, 6), sampling);
  sampling.min_new_tokens = 6;
  const RequestId long_one = loop.submit(prompt_of(5, 6), sampling);
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(short_one).token_ids, output);
  EXPECT_EQ(loop.output(short_one).stop_token, output[2]);
  EXPECT_GE(loop.output(long_one).token_ids.size(), 6u);
  EXPECT_EQ(loop.output(long_one).token_ids[1], output[1]);
  EXPECT_NE(loop.output(long_one).token_ids[2], output[2]);
}

// By the definition: the logits' own distribution.
double logprob_of(std::span<const float> logits, int32_t token) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return static_cast<double>(logits[static_cast<size_t>(token)]) - std::log(sum);
}

TEST(RequestFields, B63PromptLogprobsAreTheModelsOwnHoweverThePromptIsCut) {
  const std::vector<int32_t> prompt = mini_tokenizer().encode("Tom has 4 apples and buys 3 more apples today.");
  EngineOptions options;
  options.max_context = 128;
  options.max_running = 3;
  options.poison = true;
  const std::vector<float> logits = make_mini_engine(options)->prompt_logits(prompt);
  const auto vocabulary = static_cast<size_t>(mini_machine().model->info().vocabulary);
  for (const int32_t chunk : {512, 4, 1}) {
    for (const int32_t start : {0, 1, 5, static_cast<int32_t>(prompt.size())}) {
      options.max_prefill_tokens = chunk;
      const auto engine = make_mini_engine(options);
      std::optional<RequestOutput> output;
      size_t with_first_event = 0;
      Request request = request_for(prompt, greedy(3));
      request.prompt_logprobs = 2;
      request.prompt_logprobs_start = start;
      request.on_token = [&](const TokenEvent& event) {
        with_first_event += event.prompt_logprobs.size();
        if (event.output != nullptr) output = *event.output;
      };
      engine->submit(std::move(request));
      engine->submit(request_for({1, 2, 3}, greedy(5)));
      engine->run_until_done();
      const auto first = static_cast<size_t>(std::max(start, 1));
      ASSERT_EQ(output->prompt_logprobs.size(), prompt.size() - first);
      EXPECT_EQ(with_first_event, prompt.size() - first);
      for (size_t position = first; position < prompt.size(); ++position) {
        const PositionLogprobs& logprobs = output->prompt_logprobs[position - first];
        EXPECT_EQ(logprobs.chosen.token, prompt[position]);
        EXPECT_EQ(logprobs.alternatives.size(), 2u);
        const auto row = std::span(logits).subspan((position - 1) * vocabulary, vocabulary);
        EXPECT_NEAR(logprobs.chosen.logprob, logprob_of(row, prompt[position]), 1e-5);
      }
    }
  }
}

TEST(RequestFields, B59APromptIsScoredWithoutAnyOutput) {
  Loop loop({.max_prefill_tokens = 4});
  Request request = request_for(prompt_of(10, 1), greedy(0));
  request.prompt_logprobs = 0;
  const RequestId scored = loop.submit(request);
  const RequestId other = loop.submit(prompt_of(9, 2), greedy(6));
  request.prompt = {7};
  const RequestId single = loop.submit(request);
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(scored).prompt_logprobs.size(), 9u);
  EXPECT_TRUE(loop.output(scored).token_ids.empty());
  EXPECT_EQ(loop.output(scored).finish, FinishReason::kLength);
  EXPECT_FALSE(loop.streamed.contains(scored));
  EXPECT_TRUE(loop.output(single).prompt_logprobs.empty());
  EXPECT_EQ(loop.output(other).token_ids, expected_output(prompt_of(9, 2), 6));
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
}

TEST(RequestFields, OutOfRangeTheyAreRefusedByName) {
  Loop loop({.end_tokens = {3}});
  const auto refused = [&](void (*change)(Request&), const char* text) {
    Request request = request_for({1, 2, 3}, greedy(5));
    change(request);
    try {
      loop.submit(request);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.message(), HasSubstr(text));
    }
  };
  refused([](Request& r) { r.prompt_logprobs = 21; }, "prompt_logprobs is 21");
  refused([](Request& r) { r.prompt_logprobs = -1; }, "prompt_logprobs is -1");
  refused([](Request& r) { r.prompt_logprobs_start = 4; }, "prompt_logprobs_start is 4");
  refused([](Request& r) { r.prompt_logprobs_start = -1; }, "prompt_logprobs_start is -1");
  refused([](Request& r) { r.sampling.min_new_tokens = 6; }, "min_new_tokens is 6");
  refused([](Request& r) { r.sampling.logit_bias = {{kVocabulary, 1.0f}}; }, "logit_bias[0] is 97");
  refused(
      [](Request& r) {
        r.sampling.min_new_tokens = 1;
        for (int32_t token = 0; token < kVocabulary; ++token) r.sampling.stop_token_ids.push_back(token);
      },
      "every token ends");
}

}  // namespace
}  // namespace reprise::engine
