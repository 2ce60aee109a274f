// Models with experts as they are loaded: what is refused before anything is allocated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "load/checkpoint.h"
#include "load/safetensors_writer.h"
#include "load/test_files.h"
#include "model/factory.h"

namespace reprise::model {
namespace {

const std::filesystem::path kSource = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models/moe";

/// A copy of a checkpoint without one of its tensors, removed afterwards.
class CheckpointWithout {
 public:
  explicit CheckpointWithout(const std::string& missing) {
    std::filesystem::copy(kSource / "config.json", directory_ / "config.json");
    const load::Checkpoint checkpoint = load::Checkpoint::open(kSource);
    std::vector<load::TensorSpec> specs;
    for (const load::StoredTensor& tensor : checkpoint.tensors()) {
      if (tensor.name != missing) specs.push_back({tensor.name, tensor.dtype, tensor.shape});
    }
    EXPECT_EQ(specs.size() + 1, checkpoint.tensors().size());
    load::SafetensorsWriter writer(directory_ / "model.safetensors", specs);
    for (const load::TensorSpec& spec : specs) writer.write(spec.name, checkpoint.at(spec.name).bytes);
    writer.finish();
  }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  load::TemporaryDirectory directory_;
};

class ExpertModel : public ::testing::Test {
 protected:
  ExpertModel() { kernels::cpu::register_cpu_kernels(registry_); }

  /// The message of a load that must fail without an allocation on the device.
  std::string refusal(const std::filesystem::path& path, const ModelOptions& options = {}) {
    const int64_t before = device_->counters().allocations;
    try {
      load_model(path, registry_, *device_, options);
    } catch (const Error& error) {
      EXPECT_EQ(device_->counters().allocations, before);
      return error.what();
    }
    ADD_FAILURE() << "nothing was refused";
    return "";
  }

  ops::Registry registry_ = ops::make_catalogue();
  std::unique_ptr<device::Device> device_ = device::cpu::create_cpu_device({.threads = 1});
};

TEST_F(ExpertModel, AMissingExpertIsNamedBeforeAnythingIsAllocated) {
  const std::string name = "model.layers.1.mlp.experts.2.down_proj.weight";
  const CheckpointWithout checkpoint(name);
  EXPECT_THAT(refusal(checkpoint.path()), ::testing::HasSubstr("\"" + name + "\" is missing"));
}

TEST_F(ExpertModel, APlacementThatDoesNotFitIsRefusedBeforeAnythingIsAllocated) {
  ModelOptions options;
  options.expert_placement = {.location = {}, .redundant = 1, .ranks = 2};
  EXPECT_THAT(refusal(kSource, options), ::testing::HasSubstr("shared evenly by 2 ranks"));
}

TEST_F(ExpertModel, ExpertsThatHaveNoMapStayWhereTheyAre) {
  const std::unique_ptr<Model> model = load_model(kSource, registry_, *device_);
  ASSERT_NE(model->expert_places(), nullptr);
  EXPECT_FALSE(model->expert_places()->can_move());
  EXPECT_TRUE(model->expert_load().empty()) << "nothing is counted unless it is asked for";
  const ExpertPlacement same = model->expert_places()->placement(0);
  EXPECT_THROW(model->expert_places()->move(0, same), Error);
  ModelOptions options;
  options.expert_placement = ExpertPlacementOptions{};
  const std::unique_ptr<Model> movable = load_model(kSource, registry_, *device_, options);
  ExpertPlacement other = same;
  std::swap(other[0], other[1]);
  EXPECT_EQ(movable->expert_places()->move(0, other), 2);
  EXPECT_EQ(movable->expert_places()->move(0, other), 0);
  other[0] = other[1];
  EXPECT_THROW(movable->expert_places()->move(0, other), Error) << "an expert would be lost";
  other.push_back(0);
  EXPECT_THROW(movable->expert_places()->move(0, other), Error);
}

}  // namespace
}  // namespace reprise::model
