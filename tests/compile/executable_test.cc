#include "compile/executable.h"

#include <gtest/gtest.h>

#include <functional>

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

/// cat along axis 0 with the mark that asks for its parts to be made in place.
Tensor placed_cat(ops::ForwardContext& context, std::initializer_list<Tensor> parts) {
  std::vector<Tensor> inputs(parts);
  inputs.resize(ops::kMaxCatTensors);
  const ops::Attribute attributes[] = {int64_t{0}, true};
  Tensor y;
  context.dispatcher.dispatch("cat", inputs, {}, attributes, {&y, 1}, std::source_location::current());
  return y;
}

std::vector<float> run_on(device::Device& device, const Executable& executable, const Tensor& x, int64_t tokens,
                          int64_t* launches, size_t output = 0) {
  const auto arena = device.allocate(executable.arena_bytes());
  const int64_t symbols[] = {tokens, 1};
  const auto bound = executable.bind(symbols, arena, {&x, 1});
  bound->run(device.default_stream(), {});
  device.default_stream().synchronize();
  *launches = bound->size();
  const Tensor& y = bound->outputs()[output];
  return std::vector<float>(y.data_as<float>(), y.data_as<float>() + y.shape().elements());
}

TEST_F(ExecutableOnCpu, PartsOfAPlacedCatAreMadeInItsResult) {
  for (const bool overwritten : {false, true}) {
    TracedStep step(registry_);
    const Tensor a = ops::add(step.context, step.x, step.x);
    const Tensor b = ops::mul(step.context, step.x, step.x);
    const Tensor more = ops::mul(step.context, a, b);
    const Tensor y = placed_cat(step.context, {b, a});
    // Writing over a part behind the cat must not reach the result: then it is copied after all.
    if (overwritten) ops::add_(step.context, a, more);
    const Tensor outputs[] = {y, ops::add(step.context, a, more)};
    const Executable executable(step.tracer.finish(outputs), "cpu", {8, 8});
    for (const int64_t tokens : {1, 3, 8}) {
      const Tensor x = tensor({tokens, 4});
      for (int64_t i = 0; i < tokens * 4; ++i) x.data_as<float>()[i] = static_cast<float>(i) + 1.0f;
      int64_t launches = 0;
      const std::vector<float> got = run_on(*device_, executable, x, tokens, &launches);
      ASSERT_EQ(got.size(), static_cast<size_t>(tokens) * 8);
      for (int64_t i = 0; i < tokens * 4; ++i) {
        const float value = static_cast<float>(i) + 1.0f;
        EXPECT_EQ(got[static_cast<size_t>(i)], value * value);
        EXPECT_EQ(got[static_cast<size_t>(tokens * 4 + i)], value + value);
      }
      const std::vector<float> last = run_on(*device_, executable, x, tokens, &launches, 1);
      EXPECT_EQ(last[1], overwritten ? 4.0f + 16.0f + 16.0f : 4.0f + 16.0f);
      EXPECT_EQ(launches, overwritten ? 6 : 4);
    }
  }
}

TEST(Placement, IsRefusedWithTheReason) {
  const ops::Registry registry = ops::make_catalogue();
  const auto hazard = [&](const std::function<void(TracedStep&, const Tensor& a, const Tensor& b)>& build) {
    TracedStep step(registry);
    const Tensor a = ops::add(step.context, step.x, step.x);
    const Tensor b = ops::mul(step.context, step.x, step.x);
    build(step, a, b);
    const graph::Graph graph = step.tracer.finish({&b, 1});
    graph::NodeId cat = graph::kNoNode;
    for (const graph::NodeId id : graph.order()) {
      if (graph.node(id).op->name() == "cat") cat = id;
    }
    std::string reason = placement_hazard(graph, cat);
    // Names of values and places in this file are not the point.
    return reason.substr(reason.find(' ') + 1);
  };
  EXPECT_EQ(hazard([](TracedStep& s, auto& a, auto& b) { placed_cat(s.context, {a, b}); }), "");
  EXPECT_EQ(hazard([](TracedStep& s, auto& a, auto&) { placed_cat(s.context, {a}); }), "has one argument");
  EXPECT_EQ(hazard([](TracedStep& s, auto& a, auto&) { placed_cat(s.context, {a, s.x}); }),
            "is not a result of its own");
  EXPECT_EQ(hazard([](TracedStep& s, auto& a, auto&) { placed_cat(s.context, {a, a}); }), "comes twice");
  EXPECT_EQ(hazard([](TracedStep& s, auto& a, auto& b) {
              const Tensor both[] = {a, b};
              ops::cat(s.context, both, 1);
            }),
            "is along axis 1");
  EXPECT_EQ(hazard([](TracedStep& s, auto& a, auto& b) {
              placed_cat(s.context, {placed_cat(s.context, {a, b}), ops::silu(s.context, a)});
            }),
            "is made of placed parts itself");
  EXPECT_NE(hazard([](TracedStep& s, auto& a, auto& b) {
              const Tensor y = placed_cat(s.context, {a, b});
              ops::silu_(s.context, y);
            }),
            "");
}

}  // namespace
}  // namespace reprise::compile
