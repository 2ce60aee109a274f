#include "engine/expert_balancer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/malloc_counter.h"
#include "device/cpu/cpu_device.h"
#include "engine/engine.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "model/factory.h"

namespace reprise::engine {
namespace {

class ExpertBalancing : public ::testing::TestWithParam<replay::Mode> {
 protected:
  ExpertBalancing() : registry_(ops::make_catalogue()) {
    kernels::cpu::register_cpu_kernels(registry_);
    device_ = device::cpu::create_cpu_device({.threads = 2});
  }

  std::shared_ptr<const model::Model> load(bool counted, bool placed) {
    model::ModelOptions options;
    options.count_expert_rows = counted;
    if (placed) options.expert_placement = {.location = {}, .redundant = 4, .ranks = 2, .dynamic = true};
    return model::load_model(std::filesystem::path(REPRISE_SOURCE_DIR) / "models/mini-moe", registry_, *device_,
                             options);
  }

  std::unique_ptr<Engine> engine_for(std::shared_ptr<const model::Model> model, ExpertBalanceOptions experts) {
    EngineOptions options;
    options.mode = GetParam();
    options.max_running = 3;
    options.max_context = 256;
    options.experts = std::move(experts);
    return Engine::create(*device_, registry_, std::move(model), std::nullopt, std::move(options));
  }

  /// Three requests with sampled tokens: every bit of the logits counts.
  static std::vector<std::vector<int32_t>> generate(Engine& engine) {
    std::vector<std::vector<int32_t>> outputs(3);
    for (int32_t i = 0; i < 3; ++i) {
      Request request;
      request.prompt = {1, 2, 3 + i, 40, 41 + 7 * i};
      request.sampling.temperature = 1.0;
      request.sampling.seed = 9 + i;
      request.sampling.ignore_eos = true;
      request.sampling.max_new_tokens = 40;
      request.on_token = [&outputs, i](const TokenEvent& event) {
        if (event.output != nullptr) outputs[static_cast<size_t>(i)] = event.output->token_ids;
      };
      engine.submit(std::move(request));
    }
    engine.run_until_done();
    return outputs;
  }

  ops::Registry registry_;
  std::unique_ptr<device::Device> device_;
};

TEST_P(ExpertBalancing, MovesExpertsBetweenStepsWithoutACaptureOrAnotherToken) {
  const auto still = engine_for(load(false, false), {});
  const auto expected = generate(*still);
  std::vector<ExpertLoadWindow> windows;
  ExpertBalanceOptions options;
  options.rebalance_every = 10;
  options.ranks = 2;
  options.on_load = [&](const ExpertLoadWindow& window) { windows.push_back(window); };
  const auto model = load(true, true);
  auto engine = engine_for(model, options);
  engine->capture(3);
  const device::DeviceCounters before = device_->counters();
  EXPECT_EQ(generate(*engine), expected);
  const device::DeviceCounters after = device_->counters();
  const Statistics statistics = engine->statistics();
  const int64_t steps = statistics.decode_steps + statistics.prefill_steps;
  const ExpertBalancer::Report report = engine->expert_balancer().report();
  EXPECT_EQ(report.rebalances, (steps - 1) / 10);
  EXPECT_GT(report.moved_experts, 0);
  EXPECT_EQ(after.captures, before.captures);
  if (GetParam() == replay::Mode::kFull) {
    EXPECT_EQ(engine->runner().counters().steps(replay::StepKind::kDecode, replay::StepReason::kReplayed),
              statistics.decode_steps);
  }
  const std::vector<model::ExpertLoad> total = model->expert_load();
  engine.reset();
  // Each rebalance ends a window of each layer; the rest is told at the end.
  const size_t layers = total.size();
  ASSERT_EQ(windows.size(), layers * static_cast<size_t>(report.rebalances + 1));
  std::vector<std::vector<int64_t>> sums(layers, std::vector<int64_t>(8));
  for (size_t i = 0; i < windows.size(); ++i) {
    const ExpertLoadWindow& window = windows[i];
    EXPECT_EQ(window.layer, static_cast<int64_t>(i % layers));
    EXPECT_EQ(window.first_step, static_cast<int64_t>(i / layers) * 10);
    EXPECT_EQ(window.last_step, std::min<int64_t>(window.first_step + 9, steps - 1));
    EXPECT_EQ(model::rows_of_experts(window.place_rows, window.placement, 8), window.rows);
    EXPECT_DOUBLE_EQ(window.balancedness, model::balancedness(window.place_rows, 2));
    for (size_t e = 0; e < 8; ++e) sums[i % layers][e] += window.rows[e];
  }
  for (size_t i = 0; i < layers; ++i) EXPECT_EQ(sums[i], total[i].rows);
}

TEST_P(ExpertBalancing, AllocatesNoDeviceMemoryAndNothingInStepsWithoutOne) {
  ExpertBalanceOptions options;
  options.rebalance_every = 8;
  const auto engine = engine_for(load(true, true), options);
  Request request;
  request.prompt = {1, 2, 3};
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.sampling.max_new_tokens = 100;
  engine->submit(std::move(request));
  while (engine->expert_balancer().report().rebalances < 2) ASSERT_TRUE(engine->step());
  const device::DeviceCounters before = device_->counters();
  for (int round = 0; round < 3; ++round) {
    // The first of eight steps rebalances.
    if (round > 0) engine->step();
    const MallocCounter mallocs;
    for (int i = 0; i < 7; ++i) engine->step();
    if (GetParam() == replay::Mode::kFull) {
      EXPECT_EQ(mallocs.count(), 0);
    }
  }
  EXPECT_EQ(engine->expert_balancer().report().rebalances, 4);
  if (GetParam() == replay::Mode::kFull) {
    EXPECT_EQ(device_->counters().allocations, before.allocations);
  }
}

TEST_P(ExpertBalancing, NeedsAModelThatCountsAndLetsMove) {
  ExpertBalanceOptions options;
  options.rebalance_every = 8;
  EXPECT_THROW(engine_for(load(false, true), options), Error);
  EXPECT_THROW(engine_for(load(true, false), options), Error);
  options.ranks = 5;
  EXPECT_THROW(engine_for(load(true, true), options), Error) << "12 places for 5 ranks";
  ExpertBalanceOptions told;
  told.on_load = [](const ExpertLoadWindow&) {};
  EXPECT_THROW(engine_for(load(false, false), told), Error);
  // 12 places; none of a rank's would be left to count for 13 ranks.
  for (const int32_t ranks : {5, 13}) {
    told.ranks = ranks;
    EXPECT_THROW(engine_for(load(true, true), told), Error) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ExpertBalancing,
                         ::testing::Values(replay::Mode::kEager, replay::Mode::kFull, replay::Mode::kPiecewise),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

}  // namespace
}  // namespace reprise::engine
