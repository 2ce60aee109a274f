#include "engine/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/log.h"
#include "engine/mini_engine.h"
#include "engine/step_loop_harness.h"

namespace reprise::engine {
namespace {

using testing::ElementsAre;

TEST(PrefixCache, FindsPagesByTheirTokensAndWhatIsInFront) {
  PrefixCache cache(8, 2);
  const std::vector<int32_t> a{1, 2};
  const std::vector<int32_t> b{3, 4};
  const PrefixCache::Node first = cache.insert(5, PrefixCache::kRoot, "", a);
  const PrefixCache::Node second = cache.insert(6, first.id, "", b);
  EXPECT_EQ(cache.find(PrefixCache::kRoot, "", a)->page, 5);
  EXPECT_EQ(cache.find(first.id, "", b)->page, 6);
  EXPECT_FALSE(cache.find(PrefixCache::kRoot, "", b));
  EXPECT_FALSE(cache.find(first.id, "", a));
  EXPECT_FALSE(cache.find(PrefixCache::kRoot, "salt", a));
  cache.insert(7, PrefixCache::kRoot, "salt", a);
  EXPECT_EQ(cache.find(PrefixCache::kRoot, "salt", a)->page, 7);
  cache.erase(5);
  EXPECT_FALSE(cache.find(PrefixCache::kRoot, "", a));
  // The same page and tokens again are another node: what was behind the first one is not behind it.
  const PrefixCache::Node again = cache.insert(5, PrefixCache::kRoot, "", a);
  EXPECT_NE(again.id, first.id);
  EXPECT_FALSE(cache.find(again.id, "", b));
  EXPECT_TRUE(cache.contains(second.page));
}

TEST(PrefixCache, ManyNodesOfOneBucketAreToldApart) {
  constexpr int32_t kPages = 200;
  PrefixCache cache(kPages, 1);
  for (int32_t page = 0; page < kPages; ++page) {
    cache.insert(page, PrefixCache::kRoot, "", std::vector<int32_t>{page * 7});
  }
  for (int32_t page = 0; page < kPages; page += 2) cache.erase(page);
  for (int32_t page = 0; page < kPages; ++page) {
    const auto found = cache.find(PrefixCache::kRoot, "", std::vector<int32_t>{page * 7});
    ASSERT_EQ(found.has_value(), page % 2 == 1) << page;
    EXPECT_EQ(found ? found->page : page, page);
  }
}

TEST(PrefixCache, UnusedNodesGoInTheOrderInWhichTheyWereGivenUp) {
  PrefixCache cache(5, 1);
  for (int32_t page = 0; page < 5; ++page) cache.insert(page, PrefixCache::kRoot, "", std::vector<int32_t>{page});
  for (const int32_t page : {3, 1, 4, 0}) cache.add_unused(page);
  cache.take_unused(1);
  EXPECT_EQ(cache.unused(), 3);
  std::vector<int32_t> order;
  while (cache.oldest_unused() >= 0) {
    order.push_back(cache.oldest_unused());
    cache.erase(order.back());
  }
  EXPECT_THAT(order, ElementsAre(3, 4, 0));
  EXPECT_THROW(cache.erase(3), Error);
}

LoopSetup caching(int32_t max_prefill_tokens = 512) {
  return {.page_size = 16, .kv_tokens = 1600, .max_prefill_tokens = max_prefill_tokens, .sequence_state = false};
}

std::vector<int32_t> joined(std::vector<int32_t> tokens, const std::vector<int32_t>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

// The model reads its answers back from the pages, so that a wrong page gives another output.
void expect_run(Loop& loop, const std::vector<int32_t>& prompt, int32_t cached_tokens, const std::string& salt = "") {
  Request request;
  request.prompt = prompt;
  request.sampling = greedy(5);
  request.cache_salt = salt;
  const RequestId id = loop.submit(std::move(request));
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(id).token_ids, expected_output(prompt, 5));
  EXPECT_EQ(loop.output(id).cached_tokens, cached_tokens);
  EXPECT_EQ(loop.output(id).prompt_tokens, static_cast<int32_t>(prompt.size()));
  EXPECT_EQ(loop.pool.free_pages(), loop.pool.usable_pages());
}

TEST(PrefixCacheHits, B68GiveWhatAColdRunGivesAndComputeTheLastTokenAgain) {
  for (const int32_t chunk : {512, 7, 1}) {
    for (const auto& [length, hit] : {std::pair(15, 0), {16, 0}, {17, 16}, {32, 16}, {33, 32}, {100, 96}}) {
      Loop loop(caching(chunk));
      expect_run(loop, prompt_of(length, 1), 0);
      const int64_t cold = loop.loop.statistics().prefill_tokens;
      EXPECT_EQ(cold, length);
      for (int i = 1; i <= 3; ++i) {
        expect_run(loop, prompt_of(length, 1), hit);
        EXPECT_EQ(loop.loop.statistics().prefill_tokens, cold + i * (length - hit));
        EXPECT_EQ(loop.loop.statistics().cached_tokens, i * hit);
      }
    }
  }
}

TEST(PrefixCacheHits, B68APromptThatBeginsAsAnotherSharesWhatIsCommon) {
  Loop loop(caching());
  const std::vector<int32_t> prompt = prompt_of(50, 1);
  expect_run(loop, prompt, 0);
  expect_run(loop, {prompt.begin(), prompt.begin() + 20}, 16);
  expect_run(loop, joined(prompt, prompt_of(30, 2)), 48);
  std::vector<int32_t> other = prompt;
  other[20] = (other[20] + 1) % kVocabulary;
  expect_run(loop, other, 16);
  other[0] = (other[0] + 1) % kVocabulary;
  expect_run(loop, other, 0);
  // A second page alone is nothing.
  expect_run(loop, {prompt.begin() + 16, prompt.end()}, 0);
}

TEST(PrefixCacheHits, ComeFromOutputsToo) {
  Loop loop(caching());
  const RequestId id = loop.submit(prompt_of(20, 1), greedy(30));
  loop.loop.run_until_done();
  // Of 20 + 30 tokens the last one was never read; 48 of the others fill pages.
  const std::vector<int32_t> conversation = joined(prompt_of(20, 1), loop.output(id).token_ids);
  expect_run(loop, joined(conversation, prompt_of(10, 3)), 48);
}

TEST(PrefixCacheHits, B68TwoAtOnceComputeTheirPromptOnce) {
  for (const int32_t chunk : {512, 10}) {
    Loop loop(caching(chunk));
    std::vector<RequestId> ids;
    for (int i = 0; i < 3; ++i) ids.push_back(loop.submit(prompt_of(50, 1), greedy(5)));
    ids.push_back(loop.submit(joined(prompt_of(50, 1), {1, 2, 3}), greedy(5)));
    const RequestId other = loop.submit(prompt_of(40, 2), greedy(5));
    loop.loop.run_until_done();
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(loop.output(ids[i]).token_ids, expected_output(prompt_of(50, 1), 5));
    EXPECT_EQ(loop.output(ids[3]).token_ids, expected_output(joined(prompt_of(50, 1), {1, 2, 3}), 5));
    EXPECT_EQ(loop.output(other).token_ids, expected_output(prompt_of(40, 2), 5));
    EXPECT_EQ(loop.output(ids[0]).cached_tokens, 0);
    for (size_t i = 1; i < 4; ++i) EXPECT_EQ(loop.output(ids[i]).cached_tokens, 48);
    EXPECT_EQ(loop.loop.statistics().prefill_tokens, 50 + 2 + 2 + 5 + 40);
  }
}

TEST(PrefixCacheHits, B68AfterAnAbortOrAFailureAreRight) {
  set_log_level(LogLevel::kOff);
  Loop loop(caching(20));
  const RequestId reading = loop.submit(prompt_of(100, 1), greedy(5));
  loop.loop.step();
  loop.loop.cancel(reading);
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(reading).finish, FinishReason::kCancelled);
  expect_run(loop, prompt_of(100, 1), 16);
  const RequestId producing = loop.submit(prompt_of(30, 2), greedy(50));
  for (int i = 0; i < 20; ++i) loop.loop.step();
  loop.loop.cancel(producing);
  loop.loop.run_until_done();
  expect_run(loop, joined(joined(prompt_of(30, 2), loop.output(producing).token_ids), {5}), 48);
  // A step that fails leaves nothing of what it may have written.
  bool failing = true;
  loop.model.before_step = [&](const replay::StepBatch& batch) {
    if (failing && batch.kv_lengths[0] == 60) throw Error(ErrorCode::kOutOfMemory, "full");
  };
  const RequestId failed = loop.submit(prompt_of(90, 3), greedy(5));
  loop.loop.run_until_done();
  EXPECT_EQ(loop.output(failed).finish, FinishReason::kError);
  failing = false;
  expect_run(loop, prompt_of(90, 3), 32);
  set_log_level(LogLevel::kInfo);
}

TEST(PrefixCacheHits, B68NeedTheSameSalt) {
  Loop loop(caching());
  expect_run(loop, prompt_of(40, 1), 0);
  expect_run(loop, prompt_of(40, 1), 0, "alice");
  expect_run(loop, prompt_of(40, 1), 0, "bob");
  expect_run(loop, prompt_of(40, 1), 32, "alice");
  expect_run(loop, prompt_of(40, 1), 32);
}

TEST(PrefixCacheHits, EndWithTheirPagesWhichAreNeededForOthers) {
  LoopSetup setup = caching();
  setup.kv_tokens = 160;
  Loop loop(setup);
  expect_run(loop, prompt_of(64, 1), 0);
  expect_run(loop, prompt_of(64, 2), 0);
  expect_run(loop, prompt_of(64, 1), 48);
  expect_run(loop, prompt_of(64, 3), 0);  // in the place of the second one, of which the first page stays
  expect_run(loop, prompt_of(64, 1), 48);
  expect_run(loop, prompt_of(64, 2), 16);
  loop.pool.flush_cache();
  EXPECT_EQ(loop.pool.cached_pages(), 0);
  expect_run(loop, prompt_of(64, 1), 0);
}

TEST(PrefixCacheHits, DoNotComeForModelsWithStateForEachSequenceNorWhenOff) {
  LoopSetup setup = caching();
  setup.sequence_state = true;
  Loop with_state(setup);
  setup.sequence_state = false;
  setup.prefix_cache = false;
  Loop off(setup);
  for (int i = 0; i < 2; ++i) {
    expect_run(with_state, prompt_of(40, 1), 0);
    expect_run(off, prompt_of(40, 1), 0);
  }
}

TEST(PrefixCacheHits, LeaveTheLogitsThatAPromptIsScoredWith) {
  Loop loop(caching());
  expect_run(loop, prompt_of(60, 1), 0);
  for (const auto& [start, cached] : {std::pair(0, 0), {16, 0}, {17, 16}, {40, 32}, {59, 48}}) {
    Request request;
    request.prompt = prompt_of(60, 1);
    request.sampling = greedy(2);
    request.prompt_logprobs = 0;
    request.prompt_logprobs_start = start;
    const RequestId id = loop.submit(std::move(request));
    loop.loop.run_until_done();
    EXPECT_EQ(loop.output(id).cached_tokens, cached);
    EXPECT_EQ(loop.output(id).prompt_logprobs.size(), static_cast<size_t>(60 - std::max(start, 1)));
    EXPECT_EQ(loop.output(id).token_ids, expected_output(prompt_of(60, 1), 2));
  }
}

// Everything that a client sees of the model's arithmetic.
struct CachedAnswer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  int32_t cached = 0;
};

CachedAnswer answer_of(Engine& engine, const std::vector<int32_t>& prompt) {
  CachedAnswer answer;
  Request request;
  request.prompt = prompt;
  request.sampling = greedy(8);
  request.sampling.ignore_eos = true;
  request.sampling.logprobs = 20;
  request.on_token = [&](const TokenEvent& event) {
    if (event.output == nullptr) return;
    answer.tokens = event.output->token_ids;
    answer.cached = event.output->cached_tokens;
    for (const PositionLogprobs& position : event.output->logprobs) {
      for (const TokenLogprob& entry : position.alternatives) answer.logprobs.push_back(entry.logprob);
    }
  };
  engine.submit(std::move(request));
  engine.run_until_done();
  return answer;
}

class PrefixCacheModels : public testing::TestWithParam<std::tuple<replay::Mode, bool>> {};

TEST_P(PrefixCacheModels, B68HitsAreBitwiseNeutral) {
  const auto [mode, int8] = GetParam();
  MiniMachine& machine = mini_machine(2);
  std::shared_ptr<const model::Model> model = machine.model;
  if (int8) {
    model::ModelOptions load;
    load.int8_kv = true;
    model = model::load_model(REPRISE_SOURCE_DIR "/models/mini", machine.registry, *machine.device, load);
  }
  const auto make = [&](bool prefix_cache) {
    EngineOptions options;
    options.mode = mode;
    options.max_running = 2;
    options.max_context = 160;
    options.max_prefill_tokens = 24;
    options.poison = true;
    options.shuffle_pages = 3;
    options.prefix_cache = prefix_cache;
    return Engine::create(*machine.device, machine.registry, model, std::nullopt, options);
  };
  const auto cold = make(false);
  const auto warm = make(true);
  std::vector<int32_t> longest;
  for (int32_t i = 0; i < 100; ++i)
    longest.push_back(static_cast<int32_t>(random_bits(3, static_cast<uint64_t>(i)) % 200));
  for (const size_t length : {100u, 15u, 16u, 17u, 32u, 33u, 100u}) {
    const std::vector<int32_t> prompt(longest.begin(), longest.begin() + static_cast<std::ptrdiff_t>(length));
    const CachedAnswer expected = answer_of(*cold, prompt);
    const CachedAnswer got = answer_of(*warm, prompt);
    EXPECT_EQ(got.tokens, expected.tokens) << length;
    EXPECT_EQ(got.logprobs, expected.logprobs) << length;
    EXPECT_EQ(expected.cached, 0);
    // A conversation that goes on with the output.
    const std::vector<int32_t> next = joined(joined(prompt, expected.tokens), {1, 2, 3});
    EXPECT_EQ(answer_of(*warm, next).logprobs, answer_of(*cold, next).logprobs) << length;
  }
  EXPECT_GT(warm->statistics().cached_tokens, 300);
  EXPECT_EQ(cold->statistics().cached_tokens, 0);
}

INSTANTIATE_TEST_SUITE_P(ModesAndCaches, PrefixCacheModels,
                         testing::Values(std::tuple(replay::Mode::kFull, false),
                                         std::tuple(replay::Mode::kEager, false),
                                         std::tuple(replay::Mode::kFull, true)),
                         [](const auto& tested) {
                           return std::string(replay::name_of(std::get<0>(tested.param))) +
                                  (std::get<1>(tested.param) ? "Int8" : "Float");
                         });

}  // namespace
}  // namespace reprise::engine
