// Every operator on the CPU, with the kernels of every instruction set that this machine has, against its reference.

#include <gtest/gtest.h>

#include <algorithm>

#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/conformance_cases.h"
#include "ops/device_under_test.h"

namespace reprise::ops {
namespace {

using kernels::cpu::InstructionSet;

DeviceUnderTest cpu_under_test(InstructionSet set, device::cpu::CpuOptions options) {
  return DeviceUnderTest(device::cpu::create_cpu_device(options), [set](Registry& registry, device::Device&) {
    kernels::cpu::register_cpu_kernels(registry, set);
  });
}

std::vector<std::string> operator_names() {
  const Registry registry = make_catalogue();
  std::vector<std::string> names;
  for (const OpDef* op : registry.list()) {
    if (!op->traits().control) names.push_back(op->name());
  }
  return names;
}

class Conformance : public ::testing::TestWithParam<std::tuple<std::string, InstructionSet>> {};

TEST_P(Conformance, AgreesWithTheReferenceForAnyNumberOfThreads) {
  const auto& [op, set] = GetParam();
  const Registry registry = make_catalogue();
  DeviceUnderTest one_thread = cpu_under_test(set, {.threads = 1});
  // Its memory is closed to host code, which shows that nothing but kernels and copies dereferences it.
  DeviceUnderTest three_threads = cpu_under_test(set, {.threads = 3, .discrete = true});
  for (const ConformanceCase& one : conformance_cases(op)) {
    SCOPED_TRACE(one.op + " " + one.name);
    const Results expected = run_reference(registry, one);
    const Results results = one_thread.run(one);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i) expect_within(expected[i], results[i], one.bound);
    const Results threaded = three_threads.run(one);
    for (size_t i = 0; i < results.size(); ++i) expect_within(results[i], threaded[i], {});
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Conformance,
                         ::testing::Combine(::testing::ValuesIn(operator_names()),
                                            ::testing::ValuesIn(kernels::cpu::available_instruction_sets())),
                         [](const auto& case_info) {
                           return std::get<0>(case_info.param) + "_" +
                                  std::string(name_of(std::get<1>(case_info.param)));
                         });

TEST(Catalogue, EveryOperatorIsComplete) {
  Registry registry = make_catalogue();
  kernels::cpu::register_cpu_kernels(registry);
  for (const OpDef* op : registry.list()) {
    SCOPED_TRACE(op->name());
    EXPECT_TRUE(op->has_shape_function());
    if (op->traits().control) continue;  // nothing to compute
    EXPECT_FALSE(conformance_cases(op->name()).empty());
    if (op->traits().view) {
      EXPECT_EQ(op->traits().rounding, Rounding::kNone);
      EXPECT_EQ(op->kernel("cpu"), nullptr);
      continue;
    }
    EXPECT_NE(op->reference(), nullptr);
    const OpKernel* kernel = op->kernel("cpu");
    ASSERT_NE(kernel, nullptr);
    EXPECT_NE(kernel->run, nullptr);
    EXPECT_EQ(kernel->plan != nullptr, op->traits().host_tiled);
    const auto& lists = op->schema().lists;
    EXPECT_EQ(op->traits().host_tiled,
              std::any_of(lists.begin(), lists.end(), [](const HostListSpec& list) { return list.updatable; }));
  }
}

}  // namespace
}  // namespace reprise::ops
