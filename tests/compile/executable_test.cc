#include "compile/executable.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "compile/pass_manager.h"
#include "compile/test_methods.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/linear.h"

namespace reprise::compile {
namespace {

class ExecutableOnCpu : public ::testing::Test {
 protected:
  ExecutableOnCpu() : registry_(ops::make_catalogue()), device_(device::cpu::create_cpu_device({.threads = 1})) {
    kernels::cpu::register_cpu_kernels(registry_);
  }
  Tensor tensor(const Shape& shape) {
    const TensorMeta meta(DType::kF32, shape);
    return Tensor(meta, device_->allocate(meta.contiguous_bytes()));
  }
  ops::Registry registry_;
  std::unique_ptr<device::Device> device_;
};

TEST_F(ExecutableOnCpu, AGraphOfNoNodesGivesBackItsInputsAndViewsOfThem) {
  TracedStep step(registry_);
  const Tensor outputs[] = {step.x, ops::slice(step.context, step.x, 1, 1, 3), step.x};
  graph::Graph graph = step.tracer.finish(outputs);
  PassManager::standard(registry_).run(graph);
  const Executable executable(std::move(graph), "cpu", {8, 8});
  EXPECT_EQ(executable.arena_bytes(), 0u);
  const auto arena = device_->reserve_arena(kAlignment);
  const Tensor x = tensor({3, 4});
  const int64_t symbols[] = {3, 1};
  const auto bound = executable.bind(symbols, arena, {&x, 1});
  bound->run(device_->default_stream(), {});
  EXPECT_EQ(bound->size(), 0);
  ASSERT_EQ(bound->outputs().size(), 3u);
  EXPECT_EQ(bound->outputs()[0].data(), x.data());
  EXPECT_EQ(bound->outputs()[1].data_as<float>(), x.data_as<float>() + 1);
  EXPECT_EQ(bound->outputs()[2].meta(), x.meta());
}

TEST_F(ExecutableOnCpu, SizesOutsideOfWhatWasTracedAreRefusedByName) {
  TracedStep step(registry_);
  const Tensor y = ops::add(step.context, step.x, step.x);
  const Executable executable(step.tracer.finish({&y, 1}), "cpu", {4, 8});
  const auto arena = device_->allocate(executable.arena_bytes());
  for (const int64_t tokens : {int64_t{-1}, int64_t{0}, int64_t{5}, int64_t{1} << 40}) {
    const Tensor x(TensorMeta(DType::kF32, {tokens, 4}), arena);
    const int64_t symbols[] = {tokens, 1};
    try {
      executable.bind(symbols, arena, {&x, 1});
      ADD_FAILURE() << tokens << " tokens were accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("tokens"), std::string::npos) << error.what();
    }
  }
  // A plan for more than what the trace assumed would be a plan for another graph.
  TracedStep more(registry_);
  const Tensor z = ops::add(more.context, more.x, more.x);
  EXPECT_THROW(Executable(more.tracer.finish({&z, 1}), "cpu", {9, 8}), Error);
}

TEST_F(ExecutableOnCpu, AnOperatorWhoseResultTheDeviceLaysOutIsRefusedByName) {
  TracedStep step(registry_);
  const Tensor packed = ops::pack_linear_weight(step.context, tensor({5, 3}));
  try {
    // 5 x 3 elements are packed as 16 x 3: more than the plan would give them.
    const Executable executable(step.tracer.finish({&packed, 1}), "cpu", {8, 8});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("pack_linear_weight"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace reprise::compile
