// Logits on the Ascend device over the emulator: near an independent engine's and the CPU's, and the same bits in every
// mode.
#ifdef REPRISE_EMULATOR_DIR

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "device/ascend/ascend_device.h"
#include "device/ascend/library_under_test.h"
#include "harness/step_harness.h"
#include "kernels/ascend/register_ascend_kernels.h"
#include "load/safetensors_file.h"

namespace reprise::replay {
namespace {

StepHarness::Options options_of(const std::string& model, Mode mode) {
  StepHarness::Options options;
  options.model = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models" / model;
  options.dtype = DType::kBF16;
  options.mode = mode;
  options.max_running = 4;
  options.buckets = {1, 4};
  return options;
}

std::unique_ptr<device::Device> open_emulator(ops::Registry& registry) {
  constexpr int kMilliseconds = 60000;
  std::unique_ptr<device::Device> device =
      device::ascend::create_ascend_device(device::ascend::options_under_test(kMilliseconds));
  kernels::ascend::register_ascend_kernels(registry, *device);
  return device;
}

StepHarness::Options on_ascend(const std::string& model, Mode mode) {
  StepHarness::Options options = options_of(model, mode);
  options.open_device = open_emulator;
  options.page_size = 128;
  options.pages_per_sequence = 2;
  return options;
}

/// Of a prompt: reference code is slow.
constexpr size_t kMostTokens = 40;

std::vector<int32_t> longest_prompt(const std::filesystem::path& model) {
  const load::SafetensorsFile file = load::SafetensorsFile::open(model / "expected.safetensors");
  std::vector<int32_t> ids;
  for (const load::StoredTensor& tensor : file.tensors()) {
    const size_t count = tensor.bytes.size() / sizeof(int32_t);
    if (!tensor.name.starts_with("ids_") || count <= ids.size() || count > kMostTokens) continue;
    ids.resize(count);
    std::memcpy(ids.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return ids;
}

/// A prompt in one piece and in chunks, then decode steps of one, three and four sequences: padded and not.
Rows run(StepHarness& harness, const std::vector<int32_t>& ids) {
  Rows rows = harness.feed(0, ids, 0, true);
  const auto add = [&rows](Rows more) { rows.insert(rows.end(), more.begin(), more.end()); };
  add(harness.feed(1, ids, 5, false));
  add(harness.feed(2, {ids.begin(), ids.begin() + 3}));
  add(harness.feed(3, {ids.begin(), ids.begin() + 1}));
  for (int32_t step = 0; step < 3; ++step) {
    add(harness.decode({0}, {ids[static_cast<size_t>(step)]}));
    add(harness.decode({0, 1, 2}, {1 + step, 2, 3}));
    add(harness.decode({0, 1, 2, 3}, {4, 5 + step, 6, 7}));
  }
  return rows;
}

/// The root of the mean square of the differences, in standard deviations of the expected values.
double difference(const Rows& actual, const Rows& expected) {
  double sum = 0, squares = 0, error = 0, count = 0;
  for (size_t row = 0; row < expected.size(); ++row) {
    for (size_t i = 0; i < expected[row].size(); ++i, ++count) {
      const double value = expected[row][i];
      sum += value;
      squares += value * value;
      error += (actual[row][i] - value) * (actual[row][i] - value);
    }
  }
  const double mean = sum / count;
  return std::isnan(error) ? INFINITY : std::sqrt(error / count) / std::sqrt(squares / count - mean * mean);
}

class AscendGolden : public ::testing::TestWithParam<std::string> {};

/// `model`: a name, or an absolute path.
void expect_the_same_in_every_mode(const std::string& model, DType input_scales) {
  const StepHarness::Options plain = options_of(model, Mode::kEager);
  const std::vector<int32_t> ids = longest_prompt(plain.model);
  ASSERT_GE(ids.size(), 4u);
  StepHarness cpu(plain);
  const Rows expected = run(cpu, ids);
  Rows first;
  for (const Mode mode : {Mode::kEager, Mode::kForceEager, Mode::kPiecewise, Mode::kFull}) {
    SCOPED_TRACE(name_of(mode));
    StepHarness harness(on_ascend(model, mode));
    for (const auto& [name, tensor] : harness.model().named_parameters()) {
      if (!name.ends_with(".input_scale")) continue;
      EXPECT_EQ(tensor.dtype(), input_scales) << name;
    }
    const Rows rows = run(harness, ids);
    ASSERT_EQ(rows.size(), expected.size());
    if (first.empty()) {
      first = rows;
      EXPECT_LE(difference(rows, expected), 5e-2);
    }
    EXPECT_EQ(rows, first);
    if (mode != Mode::kFull && mode != Mode::kPiecewise) continue;
    const StepCounters& counters = harness.runner().counters();
    EXPECT_EQ(counters.steps(StepKind::kDecode), counters.steps(StepKind::kDecode, StepReason::kReplayed));
  }
}

TEST_P(AscendGolden, LogitsAreNearTheCpusAndTheSameInEveryMode) {
  expect_the_same_in_every_mode(GetParam(), DType::kF32);
}

/// A copy of a model whose static scales are such that bfloat16 holds them.
std::filesystem::path with_short_scales(const std::filesystem::path& model) {
  const std::filesystem::path copy = std::filesystem::path(testing::TempDir()) / "ascend_golden_short_scales";
  std::filesystem::remove_all(copy);
  std::filesystem::copy(model, copy);
  const load::SafetensorsFile file = load::SafetensorsFile::open(model / "model.safetensors");
  const std::span<const std::byte> bytes = file.file()->bytes();
  std::fstream changed(copy / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  for (const load::StoredTensor& tensor : file.tensors()) {
    if (!tensor.name.ends_with(".input_scale") || tensor.dtype != DType::kF32) continue;
    for (size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
      changed.seekp(tensor.bytes.data() - bytes.data() + static_cast<std::ptrdiff_t>(at));
      changed.write("\0\0", 2);  // the lower half of the mantissa
    }
  }
  EXPECT_TRUE(changed.flush());
  return copy;
}

// What was stored in the compute dtype, as checkpoints of ModelSlim are: operators take such scales as they are.
TEST(AscendGoldenScales, ThatBfloat16HoldsAreOfTheDtypeOfTheRows) {
  const std::filesystem::path model =
      with_short_scales(std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models/dense-w8a8-static");
  expect_the_same_in_every_mode(model.string(), DType::kBF16);
  std::filesystem::remove_all(model);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, AscendGolden,
                         ::testing::Values("dense", "dense-tied-bias", "dense-yarn", "dense-sharded",
                                           "dense-mixed-dtype", "dense-w8a8-static", "dense-w8a8-dynamic",
                                           "dense-w8a8-ct", "moe", "moe-sparse-step", "moe-w8a8-dynamic",
                                           "moe-w8a8-ct"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace reprise::replay

#endif  // REPRISE_EMULATOR_DIR
