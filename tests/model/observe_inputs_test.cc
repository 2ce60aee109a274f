#include "model/observe_inputs.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "load/quantized_tensors.h"
#include "model/factory.h"

namespace reprise::model {
namespace {

const std::filesystem::path kDense = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models/dense";

class ObserveInputs : public ::testing::TestWithParam<bool> {
 protected:
  ObserveInputs() {
    kernels::cpu::register_cpu_kernels(registry_, kernels::cpu::instruction_set_from_environment());
    ModelOptions options;
    options.dtype = DType::kF32;
    model_ = load_model(kDense, registry_, *device_, options);
  }
  std::map<std::string, load::ActivationRange> observe(const std::vector<std::vector<int32_t>>& texts) {
    return observe_linear_inputs(*model_, registry_, *device_, texts);
  }

  ops::Registry registry_ = ops::make_catalogue();
  std::unique_ptr<device::Device> device_ = device::cpu::create_cpu_device({.threads = 1, .discrete = GetParam()});
  std::unique_ptr<Model> model_;
};
INSTANTIATE_TEST_SUITE_P(Devices, ObserveInputs, ::testing::Bool());

TEST_P(ObserveInputs, TellsTheRangeOfEveryLayerOverAllTexts) {
  const std::vector<int32_t> first = {1, 2, 3};
  const std::vector<int32_t> second = {500, 7, 7, 9, 11, 300, 200, 17, 19, 1, 2, 3, 4, 5, 6, 7, 8, 90, 100};
  const auto both = observe({first, second, {}});
  const auto one = observe({first});
  const auto other = observe({second});
  for (const std::string& layer : load::linear_layers(load::ModelConfig::load(kDense))) {
    ASSERT_TRUE(both.contains(layer)) << layer;
    EXPECT_LT(both.at(layer).least, 0.0f);
    EXPECT_GT(both.at(layer).largest, 0.0f);
    EXPECT_EQ(both.at(layer).least, std::min(one.at(layer).least, other.at(layer).least)) << layer;
    EXPECT_EQ(both.at(layer).largest, std::max(one.at(layer).largest, other.at(layer).largest)) << layer;
  }
  // Layers of one input see the same.
  const std::string attention = "model.layers.1.self_attn.";
  EXPECT_EQ(both.at(attention + "q_proj").largest, both.at(attention + "v_proj").largest);
  EXPECT_NE(both.at(attention + "q_proj").largest, both.at(attention + "o_proj").largest);
}

TEST_P(ObserveInputs, RefusesTokensThatTheModelDoesNotKnowAndTextsThatAreTooLong) {
  EXPECT_THROW(observe({{1, 512}}), Error);
  EXPECT_THROW(observe({{-1}}), Error);
  EXPECT_THROW(observe({std::vector<int32_t>(100'000, 1)}), Error);
}

}  // namespace
}  // namespace reprise::model
