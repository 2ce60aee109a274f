#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "base/error.h"
#include "engine/allocation_counter.h"
#include "engine/mini_engine.h"

namespace reprise::engine {
namespace {

using replay::Mode;
using replay::StepKind;
using replay::StepReason;
using testing::HasSubstr;

EngineOptions small_options(Mode mode) {
  EngineOptions options;
  options.mode = mode;
  options.buckets.sizes = {1, 2, 4, 8};
  options.max_running = 9;
  options.max_context = 128;
  options.kv_tokens = 9 * 128;
  options.poison = true;
  return options;
}

std::vector<int32_t> indexed_prompt(int32_t index) {
  return mini_tokenizer().encode(std::string(static_cast<size_t>(1 + index), '#') +
                                 " Tom has 4 apples and buys 3 more.");
}

// Requests of different lengths, every second one sampled.
Request request_of(int32_t index, int32_t max_new_tokens) {
  Request request;
  request.prompt = indexed_prompt(index);
  request.sampling.max_new_tokens = max_new_tokens;
  request.sampling.ignore_eos = true;
  request.sampling.temperature = index % 2 == 0 ? 0 : 1;
  request.sampling.seed = static_cast<uint64_t>(index);
  return request;
}

struct Trace {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<uint64_t> pages;
  friend bool operator==(const Trace&, const Trace&) = default;
};

// Tokens of `batch` requests after some turns, and every page of the KV cache but scratch, while all still run.
Trace trace(Engine& engine, int32_t batch) {
  Trace result;
  result.tokens.resize(static_cast<size_t>(batch));
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < batch; ++i) {
    Request request = request_of(i, 60);
    request.on_token = [&tokens = result.tokens[static_cast<size_t>(i)]](const TokenEvent& event) {
      if (event.token) tokens.push_back(*event.token);
    };
    ids.push_back(engine.submit(std::move(request)));
  }
  for (int i = 0; i < 8; ++i) engine.step();
  for (int32_t page = engine.kv_pool().scratch_pages(); page < engine.kv_pool().pages(); ++page) {
    result.pages.push_back(engine.kv_pool().page_checksum(page));
  }
  for (const RequestId id : ids) engine.cancel(id);
  engine.run_until_done();
  return result;
}

TEST(Engine, TokensAndPagesAreTheSameInEveryMode) {
  for (const int threads : {1, 2, 5}) {
    for (int32_t batch = 1; batch <= 9; ++batch) {
      const Trace expected = trace(*make_mini_engine(small_options(Mode::kEager)), batch);
      for (const auto& tokens : expected.tokens) ASSERT_EQ(tokens.size(), 8u);
      for (const Mode mode : {Mode::kAotEager, Mode::kForceEager, Mode::kFull}) {
        if (threads != 1 && mode != Mode::kFull) continue;
        const std::unique_ptr<Engine> engine = make_mini_engine(small_options(mode), threads);
        EXPECT_EQ(trace(*engine, batch), expected) << replay::name_of(mode) << ", batch " << batch;
        if (mode == Mode::kFull) {
          const StepReason reason = batch == 9 ? StepReason::kAboveLargestBucket : StepReason::kReplayed;
          EXPECT_EQ(engine->runner().counters().steps(StepKind::kDecode, reason), 7);
        }
      }
    }
  }
}

std::map<int32_t, RequestOutput> outputs_of(Engine& engine, const std::vector<int32_t>& indices) {
  std::map<int32_t, RequestOutput> outputs;
  for (const int32_t index : indices) {
    Request request = request_of(index, 10 + index);
    request.on_token = [&outputs, index](const TokenEvent& event) {
      if (event.output != nullptr) outputs.emplace(index, *event.output);
    };
    engine.submit(std::move(request));
  }
  engine.run_until_done();
  return outputs;
}

TEST(Engine, B64ARequestAloneAndAmongOthersGivesTheSame) {
  EngineOptions options = small_options(Mode::kFull);
  options.max_prefill_tokens = 7;
  options.shuffle_pages = 3;
  options.page_size = 5;
  const std::unique_ptr<Engine> crowd = make_mini_engine(options, 2);
  const auto together = outputs_of(*crowd, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const std::unique_ptr<Engine> lone = make_mini_engine(small_options(Mode::kFull));
  for (int32_t index = 0; index <= 10; ++index) {
    const auto alone = outputs_of(*lone, {index});
    EXPECT_EQ(alone.at(index).token_ids, together.at(index).token_ids) << index;
    EXPECT_EQ(alone.at(index).text, together.at(index).text) << index;
  }
}

struct Exact {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  friend bool operator==(const Exact&, const Exact&) = default;
};

// One greedy request while others come before and after it.
Exact exact_among(Engine& engine, int32_t others) {
  Exact result;
  for (int32_t i = 0; i <= others; ++i) {
    Request request = request_of(i == others / 2 ? 0 : 1 + i, 12);
    request.sampling.logprobs = 3;
    if (i == others / 2) {
      request.on_token = [&result](const TokenEvent& event) {
        result.tokens.push_back(*event.token);
        for (const TokenLogprob& entry : event.logprobs->alternatives) result.logprobs.push_back(entry.logprob);
      };
    }
    engine.submit(std::move(request));
    if (i % 8 == 7) engine.step();
  }
  engine.run_until_done();
  return result;
}

TEST(Engine, B64GreedyOutputIsBitwiseTheSameForAnyCompanyRepetitionCacheModeAndThreads) {
  EngineOptions options = small_options(Mode::kEager);
  options.prefix_cache = false;
  const Exact expected = exact_among(*make_mini_engine(options), 0);
  ASSERT_EQ(expected.tokens.size(), 12u);
  options.max_running = 32;
  options.kv_tokens = 32 * 64;
  options.page_size = 4;
  options.max_prefill_tokens = 64;
  for (const auto& [mode, threads, prefix_cache] :
       {std::tuple(Mode::kFull, 1, true), {Mode::kFull, 8, true}, {Mode::kEager, 2, false}}) {
    options.mode = mode;
    options.prefix_cache = prefix_cache;
    const auto engine = make_mini_engine(options, threads);
    for (const int32_t others : {0, 7, 31, 0, 0}) {
      EXPECT_EQ(exact_among(*engine, others), expected) << replay::name_of(mode) << " " << threads << " " << others;
    }
    EXPECT_EQ(engine->statistics().cached_tokens > 0, prefix_cache);
  }
}

TEST(Engine, ReplayedPromptStepsGiveTheSameTokens) {
  const std::vector<int32_t> indices = {0, 20, 40, 60, 3};
  const auto expected = outputs_of(*make_mini_engine(small_options(Mode::kEager)), indices);
  for (const Mode mode : {Mode::kFull, Mode::kPiecewise}) {
    EngineOptions options = small_options(mode);
    options.prefill_graph_tokens = {32, 8, 200};
    const std::unique_ptr<Engine> engine = make_mini_engine(options, 2);
    EXPECT_EQ(engine->options().prefill_graph_tokens, (std::vector<int32_t>{8, 32})) << "no prompt has 200 tokens";
    const auto outputs = outputs_of(*engine, indices);
    for (const int32_t index : indices) EXPECT_EQ(outputs.at(index).token_ids, expected.at(index).token_ids) << index;
    EXPECT_GT(engine->runner().counters().steps(StepKind::kPrefill, StepReason::kReplayed), 5);
  }
}

TEST(Engine, B47DecodeIsReplayedThoughThePoolIsFull) {
  EngineOptions options = small_options(Mode::kFull);
  options.max_running = 8;
  options.kv_tokens = 3 * 64;
  const std::unique_ptr<Engine> engine = make_mini_engine(options);
  for (int32_t i = 0; i < 3; ++i) {
    Request request = request_of(i, 0);
    request.sampling.max_new_tokens = 65 - static_cast<int32_t>(request.prompt.size());
    engine->submit(std::move(request));
  }
  int32_t least_free = engine->kv_pool().free_pages();
  while (engine->step()) least_free = std::min(least_free, engine->kv_pool().free_pages());
  EXPECT_EQ(least_free, 0);
  EXPECT_EQ(engine->statistics().preemptions, 0);
  const replay::StepCounters& counters = engine->runner().counters();
  EXPECT_GT(counters.steps(StepKind::kDecode), 40);
  EXPECT_EQ(counters.steps(StepKind::kDecode, StepReason::kReplayed), counters.steps(StepKind::kDecode));
}

TEST(Engine, PromptLogitsAreBitwiseTheSameHoweverTheyAreComputed) {
  const std::vector<int32_t> ids = indexed_prompt(20);
  const std::unique_ptr<Engine> eager = make_mini_engine(small_options(Mode::kEager));
  const std::vector<float> whole = eager->prompt_logits(ids);
  ASSERT_EQ(whole.size(), ids.size() * static_cast<size_t>(eager->model().info().vocabulary));
  const std::unique_ptr<Engine> full = make_mini_engine(small_options(Mode::kFull), 2);
  for (const int32_t chunk : {1, 5, 16}) {
    EXPECT_EQ(full->prompt_logits(ids, {.chunk = chunk}), whole) << chunk;
  }
  EXPECT_EQ(full->prompt_logits(ids, {.decode = true}), whole);
  EXPECT_EQ(full->runner().counters().steps(StepKind::kDecode, StepReason::kReplayed),
            static_cast<int64_t>(ids.size()));
}

TEST(Engine, SteadyReplayedStepsAllocateNothingAndCallNoModelCode) {
  EngineOptions options = small_options(Mode::kFull);
  options.poison = false;
  options.max_context = 512;
  options.kv_tokens = 4 * 512;
  MiniMachine& used = mini_machine();
  const std::unique_ptr<Engine> engine = Engine::create(*used.device, used.registry, used.model, std::nullopt, options);
  for (int32_t i = 0; i < 3; ++i) engine->submit(request_of(i, 400));
  for (int i = 0; i < 20; ++i) engine->step();
  const int64_t allocated = allocations();
  const int64_t calls = engine->runner().method_calls();
  const int64_t dispatches = engine->runner().operator_dispatches();
  const int64_t replays = engine->runner().counters().steps(StepKind::kDecode, StepReason::kReplayed);
  for (int i = 0; i < 300; ++i) engine->step();
  EXPECT_EQ(allocations() - allocated, 0);
  EXPECT_EQ(engine->runner().method_calls() - calls, 0);
  EXPECT_EQ(engine->runner().operator_dispatches() - dispatches, 0);
  EXPECT_EQ(engine->runner().counters().steps(StepKind::kDecode, StepReason::kReplayed) - replays, 300);
}

TEST(Engine, CapturesAheadWhatABatchNeeds) {
  const std::unique_ptr<Engine> engine = make_mini_engine(small_options(Mode::kFull));
  engine->capture(3);
  std::vector<int32_t> captured;
  for (const auto& bucket : engine->runner().capture_report().buckets) captured.push_back(bucket.size);
  EXPECT_THAT(captured, testing::UnorderedElementsAre(1, 2, 4));
  EXPECT_GT(engine->statistics().capture_seconds, 0);
}

TEST(Engine, StatisticsLeaveCapturesOnTheWayOut) {
  const std::unique_ptr<Engine> engine = make_mini_engine(small_options(Mode::kFull));
  outputs_of(*engine, {1, 2, 3});
  const Statistics statistics = engine->statistics();
  EXPECT_EQ(statistics.finished_requests, 3);
  EXPECT_EQ(statistics.decode_tokens, 10 + 11 + 12);
  EXPECT_EQ(statistics.prefill_tokens,
            static_cast<int64_t>(indexed_prompt(1).size() + indexed_prompt(2).size() + indexed_prompt(3).size()));
  EXPECT_GT(statistics.capture_seconds, 0);
  EXPECT_GT(statistics.decode_tokens_per_second(), 0);
  EXPECT_GT(statistics.prefill_tokens_per_second(), 0);
}

TEST(Engine, B50RebuildingTheEngineLeavesNoMemoryBehind) {
  device::Device& device = *mini_machine().device;
  {
    outputs_of(*make_mini_engine(small_options(Mode::kFull)), {1});
  }
  const size_t before = device.memory_info().allocated_bytes;
  for (int i = 0; i < 10; ++i) outputs_of(*make_mini_engine(small_options(Mode::kFull)), {1, 2});
  EXPECT_EQ(device.memory_info().allocated_bytes, before);
}

TEST(Engine, OptionsOutOfRangeAreNamed) {
  const auto refused = [](void (*change)(EngineOptions&), const char* field) {
    EngineOptions options = small_options(Mode::kEager);
    change(options);
    try {
      make_mini_engine(options);
      ADD_FAILURE() << field;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.message(), HasSubstr(field));
    }
  };
  refused([](EngineOptions& o) { o.max_running = 0; }, "max_running");
  refused([](EngineOptions& o) { o.max_running = std::numeric_limits<int32_t>::max(); }, "max_running");
  refused([](EngineOptions& o) { o.max_prefill_tokens = 0; }, "max_prefill_tokens");
  refused([](EngineOptions& o) { o.max_context = -1; }, "max_context");
  refused([](EngineOptions& o) { o.retrace_every = -1; }, "retrace_every");
  refused([](EngineOptions& o) { o.page_size = 0; }, "page_size");
  refused([](EngineOptions& o) { o.max_context = 1 << 30; }, "max_context");
  refused([](EngineOptions& o) { o.kv_tokens = -1; }, "kv_tokens");
  refused([](EngineOptions& o) { o.end_token_ids = {1 << 30}; }, "end token");
}

TEST(Engine, AnUnlimitedChunkCostsNoMemory) {
  EngineOptions options = small_options(Mode::kEager);
  const size_t before = mini_machine().device->memory_info().allocated_bytes;
  const auto limited = make_mini_engine(options);
  const size_t needed = mini_machine().device->memory_info().allocated_bytes - before;
  options.max_prefill_tokens = std::numeric_limits<int32_t>::max();
  const auto unlimited = make_mini_engine(options);
  EXPECT_LT(mini_machine().device->memory_info().allocated_bytes - before - needed, 2 * needed);
  EXPECT_EQ(unlimited->prompt_logits(indexed_prompt(0)), limited->prompt_logits(indexed_prompt(0)));
}

TEST(Engine, CountsTheTokensOfPromptLogits) {
  const auto engine = make_mini_engine(small_options(Mode::kFull));
  const std::vector<int32_t> ids = indexed_prompt(5);
  engine->prompt_logits(ids, {.chunk = 4});
  EXPECT_EQ(engine->statistics().prefill_tokens, static_cast<int64_t>(ids.size()));
  EXPECT_EQ(engine->statistics().prefill_steps, engine->runner().counters().steps(StepKind::kPrefill));
  EXPECT_GT(engine->statistics().prefill_seconds, 0);
  engine->prompt_logits(ids, {.decode = true});
  EXPECT_EQ(engine->statistics().decode_tokens, static_cast<int64_t>(ids.size()));
  EXPECT_EQ(engine->statistics().decode_steps, engine->runner().counters().steps(StepKind::kDecode));
  EXPECT_GT(engine->statistics().decode_seconds, 0);
}

TEST(Engine, DerivesTheCapacityOfTheCacheFromRequestsWhenNoneIsGiven) {
  EngineOptions options = small_options(Mode::kEager);
  options.kv_tokens = 0;
  EXPECT_EQ(make_mini_engine(options)->options().kv_tokens, 9 * 128);
}

}  // namespace
}  // namespace reprise::engine
