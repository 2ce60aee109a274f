// Captures that are too slow to stand in front of a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "engine/mini_engine.h"
#include "engine/step_builder.h"

namespace reprise::engine {
namespace {

using replay::StepKind;
using replay::StepReason;
using testing::ElementsAre;

EngineOptions lazy_options(std::optional<double> milliseconds) {
  EngineOptions options;
  options.buckets.sizes = {1, 2, 4, 8};
  options.max_running = 8;
  options.max_context = 128;
  options.poison = true;
  options.capture_at_once_milliseconds = milliseconds;
  return options;
}

std::vector<std::vector<int32_t>> tokens_of_eight(Engine& engine) {
  std::vector<std::vector<int32_t>> tokens(8);
  for (int32_t i = 0; i < 8; ++i) {
    Request request;
    request.prompt = {1, 2, 3 + i};
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_new_tokens = 4 + 4 * i;
    request.on_token = [&tokens, i](const TokenEvent& event) {
      if (event.token) tokens[static_cast<size_t>(i)].push_back(*event.token);
    };
    engine.submit(std::move(request));
    engine.step();
  }
  engine.run_until_done();
  return tokens;
}

std::vector<int32_t> captured_sizes(Engine& engine) {
  std::vector<int32_t> sizes;
  for (const auto& bucket : engine.runner().capture_report().buckets) sizes.push_back(bucket.size);
  return sizes;
}

TEST(LazyCapture, StepsRunEagerlyUntilTheirSizeIsCapturedBetweenSteps) {
  set_log_level(LogLevel::kWarning);
  const std::vector<std::vector<int32_t>> expected = tokens_of_eight(*make_mini_engine(lazy_options({})));
  const auto engine = make_mini_engine(lazy_options(0));
  EXPECT_EQ(tokens_of_eight(*engine), expected);
  const replay::StepCounters& counters = engine->runner().counters();
  EXPECT_GT(counters.steps(StepKind::kDecode, StepReason::kNotCapturedYet), 0);
  EXPECT_GT(counters.steps(StepKind::kDecode, StepReason::kReplayed), 0);
  EXPECT_EQ(counters.steps(StepKind::kDecode, StepReason::kNotCapturedYet) +
                counters.steps(StepKind::kDecode, StepReason::kReplayed),
            counters.steps(StepKind::kDecode));
  // Idle, it captures what is still wanted, so that nothing is eager a second time.
  EXPECT_FALSE(engine->runner().wants_capture());
  EXPECT_THAT(captured_sizes(*engine), testing::UnorderedElementsAre(1, 2, 4, 8));
  const int64_t eager = counters.steps(StepKind::kDecode, StepReason::kNotCapturedYet);
  EXPECT_EQ(tokens_of_eight(*engine), expected);
  EXPECT_EQ(counters.steps(StepKind::kDecode, StepReason::kNotCapturedYet), eager);
  EXPECT_EQ(replay::name_of(StepReason::kNotCapturedYet), "not_captured_yet");
  set_log_level(LogLevel::kInfo);
}

TEST(LazyCapture, QuickOnesStandInFrontOfTheirStep) {
  const auto engine = make_mini_engine(lazy_options(1e9));
  tokens_of_eight(*engine);
  EXPECT_EQ(engine->runner().counters().steps(StepKind::kDecode, StepReason::kNotCapturedYet), 0);
}

TEST(LazyCapture, ComesInTheOrderInWhichStepsWantIt) {
  set_log_level(LogLevel::kWarning);
  const auto engine = make_mini_engine(lazy_options(0));
  KvPool& pool = engine->kv_pool();
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(8, pages));
  StepBuilder builder(pool);
  const std::vector<int32_t> token{5};
  for (const int32_t rows : {1, 2, 4, 3, 7, 2, 2, 1, 3, 4}) {
    builder.begin();
    for (int32_t row = 0; row < rows; ++row) {
      builder.add(token, 0, std::span(pages).subspan(static_cast<size_t>(row), 1), 0);
    }
    engine->run(builder.finish());
    EXPECT_EQ(engine->runner().last_reason(), rows == 1 ? StepReason::kReplayed : StepReason::kNotCapturedYet);
  }
  // Four steps want 4, three want 2, and one wants 8.
  while (engine->runner().capture_wanted()) {
  }
  EXPECT_THAT(captured_sizes(*engine), ElementsAre(1, 4, 2, 8));
  pool.release(pages);
  set_log_level(LogLevel::kInfo);
}

}  // namespace
}  // namespace reprise::engine
