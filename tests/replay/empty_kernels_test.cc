#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "harness/step_harness.h"
#include "kernels/cpu/register_empty_kernels.h"

namespace reprise::replay {
namespace {

StepHarness::Options emptied_options(std::function<void(ops::Registry&)> prepare) {
  StepHarness::Options options;
  options.model = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models/dense";
  options.prepare = std::move(prepare);
  return options;
}

/// The captured program without the kernels' names and the addresses, which differ from device to device.
std::string launches_of(const std::string& program) {
  const std::string unnamed = std::regex_replace(program, std::regex(R"([a-z0-9_.]+ tiles=)"), "tiles=");
  return std::regex_replace(unnamed, std::regex("@[0-9a-f]+"), "@");
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(EmptyKernels, KeepLaunchesTilesAndArguments) {
  StepHarness real(emptied_options({}));
  // Weights are packed by real kernels in one and by empty ones in the other; what is launched does not depend on it.
  StepHarness empty(
      emptied_options([](ops::Registry& registry) { registry = kernels::cpu::with_empty_cpu_kernels(registry); }));
  const std::string program = real.runner().program_text(4);
  const std::string empty_program = empty.runner().program_text(4);
  EXPECT_EQ(launches_of(empty_program), launches_of(program));
  const size_t launches = count_of(program, " tiles=");
  EXPECT_GT(launches, 20u);
  EXPECT_EQ(count_of(empty_program, "empty tiles="), launches);
  EXPECT_EQ(count_of(program, "empty tiles="), 0u);
}

TEST(EmptyKernels, ComputeNothing) {
  StepHarness empty(
      emptied_options([](ops::Registry& registry) { registry = kernels::cpu::with_empty_cpu_kernels(registry); }));
  empty.decode({0, 1}, {1, 2});
  // Poison stays where a kernel would have written.
  for (const Rows& rows : {empty.decode({0, 1}, {3, 4}), empty.decode({2}, {5})}) {
    for (const float logit : rows[0]) ASSERT_TRUE(std::isnan(logit));
  }
}

}  // namespace
}  // namespace reprise::replay
