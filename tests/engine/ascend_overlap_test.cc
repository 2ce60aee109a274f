// An engine on the Ascend device over the emulator, whose streams run on threads of their own: steps that overlap with
// the host's work give what steps in turn give.
#ifdef REPRISE_EMULATOR_DIR

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "device/ascend/ascend_device.h"
#include "engine/engine.h"
#include "kernels/ascend/register_ascend_kernels.h"
#include "model/factory.h"

namespace reprise::engine {
namespace {

struct Emulated {
  Emulated() : registry(ops::make_catalogue()) {
    device::ascend::AscendOptions options;
    options.library.folder = REPRISE_EMULATOR_DIR;
    options.wait_limit_ms = 60000;
    device = device::ascend::create_ascend_device(options);
    kernels::ascend::register_ascend_kernels(registry, *device);
    model::ModelOptions load;
    load.dtype = DType::kBF16;
    model = model::load_model(REPRISE_SOURCE_DIR "/tests/data/models/dense", registry, *device, load);
  }
  ops::Registry registry;
  std::unique_ptr<device::Device> device;
  std::shared_ptr<const model::Model> model;
};

std::vector<std::vector<int32_t>> outputs_of(Emulated& machine, replay::Mode mode, std::optional<bool> overlap) {
  EngineOptions options;
  options.mode = mode;
  options.buckets.sizes = {1, 3};
  options.max_running = 3;
  options.max_context = 250;
  options.page_size = 128;
  options.kv_tokens = 4 * 128;
  options.overlap = overlap;
  const auto engine = Engine::create(*machine.device, machine.registry, machine.model, std::nullopt, options);
  EXPECT_EQ(engine->options().overlap, overlap.value_or(true));
  std::vector<std::vector<int32_t>> tokens(7);
  std::mt19937 random(3);
  for (size_t i = 0; i < tokens.size(); ++i) {
    Request request;
    for (size_t at = 0; at < 120 + random() % 10; ++at) request.prompt.push_back(static_cast<int32_t>(random() % 50));
    request.sampling.temperature = i % 2 == 0 ? 0 : 1;
    request.sampling.seed = i;
    request.sampling.ignore_eos = true;
    request.sampling.max_new_tokens = static_cast<int32_t>(2 + random() % 10);
    const size_t leaves_after = i % 3 == 2 ? 3 : 1000;
    request.on_token = [&, i, leaves_after](const TokenEvent& event) {
      if (event.token) tokens[i].push_back(*event.token);
      if (event.output != nullptr) {
        EXPECT_FALSE(event.output->error) << event.output->error->message();
      } else if (tokens[i].size() == leaves_after) {
        engine->cancel(event.request);
      }
    };
    engine->submit(std::move(request));
    engine->step();
  }
  engine->run_until_done();
  EXPECT_EQ(engine->kv_pool().free_pages(), engine->kv_pool().usable_pages());
  return tokens;
}

TEST(AscendOverlap, GivesTheTokensOfStepsInTurnAndMisusesNothing) {
  const std::filesystem::path report = std::filesystem::path(testing::TempDir()) / "ascend_overlap_validation.txt";
  std::filesystem::remove(report);
  setenv("REPRISE_ACL_VALIDATE", report.c_str(), 1);
  {
    Emulated machine;
    EXPECT_FALSE(machine.device->capabilities().shares_host_cores);
    for (const replay::Mode mode : {replay::Mode::kFull, replay::Mode::kPiecewise}) {
      const auto expected = outputs_of(machine, mode, false);
      EXPECT_EQ(outputs_of(machine, mode, std::nullopt), expected) << replay::name_of(mode);
    }
  }
  unsetenv("REPRISE_ACL_VALIDATE");
  std::ifstream file(report);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, testing::HasSubstr("acl validation: 0 problems")) << text;
}

}  // namespace
}  // namespace reprise::engine

#endif  // REPRISE_EMULATOR_DIR
