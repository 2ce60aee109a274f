// What the host does in a replayed step, in counts: they hold on any machine.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/malloc_counter.h"
#include "base/process_memory.h"
#include "device/cpu/cpu_device.h"
#include "engine/engine.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "model/factory.h"

namespace reprise::engine {
namespace {

class ReplayedSteps : public ::testing::TestWithParam<std::tuple<int32_t, int, device::UpdateOrder, bool>> {
 protected:
  ReplayedSteps() : registry_(ops::make_catalogue()) {
    kernels::cpu::register_cpu_kernels(registry_);
    device_ = device::cpu::create_cpu_device({.threads = std::get<1>(GetParam())});
    const std::filesystem::path path = std::filesystem::path(REPRISE_SOURCE_DIR) / "models/mini";
    model_ = model::load_model(path, registry_, *device_);
  }

  ops::Registry registry_;
  std::unique_ptr<device::Device> device_;
  std::shared_ptr<const model::Model> model_;
};

TEST_P(ReplayedSteps, AllocateNothingCallNoModelAndDispatchNoOperator) {
  const auto [batch, threads, order, overlap] = GetParam();
  // Sanitizers see the same in a few.
  const int steps = MallocCounter::available() ? 1000 : 50;
  EngineOptions options;
  options.max_running = batch;
  options.max_context = 1200;
  options.update_order = order;
  options.overlap = overlap;
  const auto engine = Engine::create(*device_, registry_, model_, std::nullopt, options);
  for (int32_t i = 0; i < batch; ++i) {
    Request request;
    request.prompt = {1, 2, 3 + i};
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_new_tokens = 1100;
    engine->submit(std::move(request));
  }
  // Prefill, capture, and what grows once.
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine->step());
  const replay::GraphRunner& runner = engine->runner();
  const int64_t replayed = runner.counters().steps(replay::StepKind::kDecode, replay::StepReason::kReplayed);
  const int64_t method_calls = runner.method_calls();
  const int64_t dispatches = runner.operator_dispatches();
  const device::DeviceCounters before = device_->counters();

  const MallocCounter mallocs;
  for (int i = 0; i < steps; ++i) engine->step();
  const int64_t allocated = mallocs.count();

  EXPECT_EQ(runner.counters().steps(replay::StepKind::kDecode, replay::StepReason::kReplayed), replayed + steps);
  EXPECT_EQ(allocated, 0);
  EXPECT_EQ(runner.method_calls(), method_calls);
  EXPECT_EQ(runner.operator_dispatches(), dispatches);
  const device::DeviceCounters after = device_->counters();
  EXPECT_EQ(after.replays, before.replays + steps);
  EXPECT_EQ(after.task_updates, before.task_updates + steps * model_->info().layers);
  EXPECT_EQ(after.launches, before.launches);
  EXPECT_EQ(after.captures, before.captures);
  EXPECT_EQ(after.allocations, before.allocations);
}

INSTANTIATE_TEST_SUITE_P(Batches, ReplayedSteps,
                         ::testing::Values(std::tuple(1, 1, device::UpdateOrder::kUpdateThenReplay, false),
                                           std::tuple(3, 2, device::UpdateOrder::kUpdateThenReplay, false),
                                           std::tuple(3, 1, device::UpdateOrder::kReplayThenUpdate, true),
                                           std::tuple(2, 1, device::UpdateOrder::kReplayThenUpdate, false)),
                         [](const auto& tested) {
                           return "Batch" + std::to_string(std::get<0>(tested.param)) + "Threads" +
                                  std::to_string(std::get<1>(tested.param)) +
                                  (std::get<2>(tested.param) == device::UpdateOrder::kReplayThenUpdate
                                       ? "UpdatedAfter"
                                       : "UpdatedBefore") +
                                  (std::get<3>(tested.param) ? "Overlapped" : "");
                         });

/// Requests of all lengths come and go meanwhile.
TEST(ReplayedStepsMemory, StaysFlatOverTenThousandSteps) {
  if (!MallocCounter::available()) GTEST_SKIP() << "sanitizers keep freed memory";
  ops::Registry registry = ops::make_catalogue();
  kernels::cpu::register_cpu_kernels(registry);
  const auto device = device::cpu::create_cpu_device({.threads = 1});
  const std::filesystem::path path = std::filesystem::path(REPRISE_SOURCE_DIR) / "models/mini";
  const std::shared_ptr<const model::Model> model = model::load_model(path, registry, *device);
  EngineOptions options;
  options.max_running = 3;
  options.max_context = 400;
  const auto engine = Engine::create(*device, registry, model, std::nullopt, options);
  int32_t requests = 0;
  const auto run = [&](int64_t steps) {
    const replay::StepCounters& counters = engine->runner().counters();
    const int64_t end = counters.steps(replay::StepKind::kDecode) + steps;
    while (counters.steps(replay::StepKind::kDecode) < end) {
      Request request;
      request.prompt.assign(static_cast<size_t>(1 + requests * 7 % 60), 5);
      request.sampling.temperature = 0;
      request.sampling.ignore_eos = true;
      request.sampling.max_new_tokens = 20 + requests * 37 % 300;
      ++requests;
      engine->submit(std::move(request));
      for (int i = 0; i < 100; ++i) engine->step();
    }
    while (engine->step()) {
    }
  };
  run(500);
  const ProcessMemory before = process_memory();
  ASSERT_GT(before.anonymous, 0u);
  run(10'000);
  const ProcessMemory after = process_memory();
  RecordProperty("anonymous_before", std::to_string(before.anonymous));
  RecordProperty("anonymous_after", std::to_string(after.anonymous));
  // A hundred bytes a step would be as much.
  EXPECT_LE(after.anonymous, before.anonymous + (size_t{1} << 20));
  EXPECT_GT(requests, 50);
}

}  // namespace
}  // namespace reprise::engine
