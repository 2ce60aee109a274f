// Every operator of the catalogue on the Ascend device over the emulator, against its reference.
#ifdef REPRISE_EMULATOR_DIR

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/ascend/ascend_device.h"
#include "device/ascend/library_under_test.h"
#include "device/cpu/cpu_device.h"
#include "kernels/ascend/register_ascend_kernels.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/conformance_cases.h"
#include "ops/device_under_test.h"
#include "ops/host_tensor.h"

namespace reprise::ops {
namespace {

/// They measure a CPU's memory and units.
const std::set<std::string> kMeasuring = {"read_all", "multiply_adds"};

std::vector<std::string> operators_with_kernels() {
  const Registry registry = make_catalogue();
  std::vector<std::string> names;
  for (const OpDef* op : registry.list()) {
    if (!op->traits().control && !kMeasuring.contains(op->name())) names.push_back(op->name());
  }
  return names;
}

bool has_dtype(const ConformanceCase& one, DType dtype) {
  return std::any_of(one.inputs.begin(), one.inputs.end(),
                     [dtype](const Tensor& input) { return input.defined() && input.dtype() == dtype; });
}

/// What the device says that it cannot do: fused attention takes 16-bit queries and pages of whole blocks, and scales
/// of int8 pages for one row of each sequence.
bool is_refused(const ConformanceCase& one) {
  if (one.op != "paged_attention" || one.inputs[3].size(0) == 0) return false;
  const std::vector<int32_t>& rows = one.lists[0];
  const bool several = std::any_of(rows.begin(), rows.end(), [](int32_t count) { return count > 1; });
  if (several && one.inputs[4].defined()) return true;
  return one.inputs[0].dtype() == DType::kF32 || one.inputs[1].size(1) % 16 != 0;
}

/// What a model or engine never asks for, and what operators of AscendCL do not define: slots behind the cache, and
/// what becomes of a router's NaN when the weights of the chosen are made to sum up to one.
bool is_undefined(const ConformanceCase& one) {
  return one.op == "moe_gating_top_k" && one.name.find("NaN, in its row only, renormalised") != std::string::npos;
}

void keep_slots_inside(ConformanceCase& one) {
  const size_t slots = one.op == "store_kv" ? 2 : 7;
  if (one.op != "store_kv" && one.op != "split_qkv_rms_norm_rope_store") return;
  const Tensor& cache = one.inputs[slots + 1];
  for (int64_t i = 0; i < one.inputs[slots].size(0); ++i) {
    int32_t& slot = one.inputs[slots].data_as<int32_t>()[i];
    if (slot >= cache.size(0) * cache.size(1)) slot = -1;
  }
}

/// The bound of the case, or what one more rounding on the way allows where the device's operators round in between.
Bound bound_of(const ConformanceCase& one, const Tensor& result) {
  Bound bound = one.bound;
  const bool int8 = result.dtype() == DType::kI8;
  if (int8 && (one.op.find("quantize") != std::string::npos)) bound.absolute = std::max(bound.absolute, 1.0);
  const bool product = one.op == "linear" || one.op == "grouped_linear" || one.op == "int8_grouped_linear";
  // Products of 16-bit floats, and those of groups of int8, are rounded to 16 bits, whatever their result's dtype is; a
  // bias comes behind that.
  if (product && (!has_dtype(one, DType::kF32) || one.op != "grouped_linear")) {
    bound.relative = std::max(bound.relative, 0x1p-7);
    bound.absolute = std::max(bound.absolute, one.op == "int8_grouped_linear" ? 0.0 : 0.1);
  }
  // A whole layer with float32 rows rounds its products to 16 bits as one with rows of bfloat16 does.
  if (one.op == "int8_moe_experts" && result.dtype() == DType::kF32) return rounded(DType::kBF16, 5e-2, 2e-2);
  return bound;
}

DeviceUnderTest& emulated() {
  static DeviceUnderTest device = [] {
    constexpr int kMilliseconds = 60000;
    return DeviceUnderTest(device::ascend::create_ascend_device(device::ascend::options_under_test(kMilliseconds)),
                           kernels::ascend::register_ascend_kernels);
  }();
  return device;
}

/// The vectors that an operator also takes in the dtype of its rows, by their places.
const std::map<std::string, std::vector<size_t>> kVectors = {{"rms_norm", {1}},
                                                             {"rms_norm_", {1}},
                                                             {"rms_norm_bias", {1}},
                                                             {"quantize", {1, 2}},
                                                             {"swiglu_quantize", {2, 3}},
                                                             {"add_rms_norm", {2}},
                                                             {"add_rms_norm_bias", {2}},
                                                             {"add_rms_norm_cast", {2}},
                                                             {"add_rms_norm_quantize", {2, 3, 4}},
                                                             {"add_rms_norm_bias_quantize", {2, 4, 5}},
                                                             {"add_rms_norm_dynamic_quantize", {2}},
                                                             {"add_rms_norm_bias_dynamic_quantize", {2}},
                                                             {"embedding_rms_norm", {2}},
                                                             {"embedding_rms_norm_quantize", {2, 4, 5}},
                                                             {"embedding_rms_norm_dynamic_quantize", {2}},
                                                             {"split_qkv_rms_norm_rope", {1, 2}},
                                                             {"split_qkv_rms_norm_rope_store", {1, 2}}};

Tensor as_bfloat16(const Tensor& vector) {
  const auto* values = vector.data_as<float>();
  return float_tensor(DType::kBF16, vector.shape(), std::span(values, static_cast<size_t>(vector.size(0))));
}

/// The case with its vectors in bfloat16 beside rows of that; false when it has none.
bool narrow_vectors(ConformanceCase& one) {
  const auto places = kVectors.find(one.op);
  if (places == kVectors.end()) return false;
  const bool looks_up = one.op.starts_with("embedding");
  if ((looks_up ? std::get<DType>(one.attributes[0]) : one.inputs[0].dtype()) != DType::kBF16) return false;
  for (const size_t place : places->second) {
    if (one.inputs[place].defined()) one.inputs[place] = as_bfloat16(one.inputs[place]);
  }
  return true;
}

class AscendConformance : public ::testing::TestWithParam<std::string> {};

TEST_P(AscendConformance, AgreesWithTheReference) {
  const Registry registry = make_catalogue();
  DeviceUnderTest& device = emulated();
  for (ConformanceCase& one : conformance_cases(GetParam())) {
    SCOPED_TRACE(one.op + " " + one.name);
    if (is_undefined(one)) continue;
    if (is_refused(one)) {
      try {
        device.run(one);
        ADD_FAILURE() << "is not refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
      }
      continue;
    }
    keep_slots_inside(one);
    const auto compare = [&] {
      const Results expected = run_reference(registry, one);
      const Results results = device.run(one);
      ASSERT_EQ(results.size(), expected.size());
      for (size_t i = 0; i < results.size(); ++i) expect_within(expected[i], results[i], bound_of(one, results[i]));
    };
    compare();
    if (narrow_vectors(one)) {
      SCOPED_TRACE("vectors of bfloat16");
      compare();
    }
    if (HasFailure()) return;
  }
}

TEST(CpuKernels, RefuseVectorsOfBfloat16ByName) {
  DeviceUnderTest cpu(device::cpu::create_cpu_device({.threads = 1}),
                      [](Registry& registry, device::Device&) { kernels::cpu::register_cpu_kernels(registry); });
  for (const auto& [op, places] : kVectors) {
    SCOPED_TRACE(op);
    std::vector<ConformanceCase> cases = conformance_cases(op);
    const auto one = std::find_if(cases.begin(), cases.end(), narrow_vectors);
    ASSERT_NE(one, cases.end());
    try {
      cpu.run(*one);
      ADD_FAILURE() << "is not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("take as float32 only"), std::string::npos) << error.what();
    }
  }
}

/// Bits of results that are equal.
void expect_same(const Tensor& a, const Tensor& b) { expect_within(a, b, {}); }

TEST(AscendFusions, OfNarrowVectorsAreOneLaunchAndEqualTheSeparateOperators) {
  DeviceUnderTest& device = emulated();
  std::mt19937 random(7);
  const int64_t width = 96;
  const auto rows = [&] { return random_tensor(DType::kBF16, {5, width}, random); };
  const Tensor x = rows(), residual = rows(), weight = random_tensor(DType::kBF16, {width}, random);
  const std::vector<float> steps(static_cast<size_t>(width), 0.0371f);
  const std::vector<float> zeros(static_cast<size_t>(width), -3.0f);
  const Tensor scale = float_tensor(DType::kBF16, {width}, steps);
  const Tensor offset = float_tensor(DType::kBF16, {width}, zeros);
  const auto run = [&](const char* op, std::vector<Tensor> inputs, std::vector<Attribute> attributes) {
    const int64_t before = device.launches();
    Results results = device.run({.op = op, .name = op, .inputs = std::move(inputs), .attributes = attributes});
    EXPECT_EQ(device.launches() - before, 1) << op;
    return results;
  };
  const std::vector<Attribute> epsilon = {1e-6};
  const Tensor sum = run("add", {x, residual}, {})[0];
  const Tensor y = run("rms_norm", {sum, weight}, epsilon)[0];
  const Results fused = run("add_rms_norm", {x, residual, weight}, epsilon);
  expect_same(y, fused[0]);
  expect_same(sum, fused[1]);
  const Results quantized = run("add_rms_norm_quantize", {x, residual, weight, scale, offset}, epsilon);
  expect_same(run("quantize", {y, scale, offset}, {})[0], quantized[0]);
  expect_same(sum, quantized[1]);
  const Results dynamic = run("add_rms_norm_dynamic_quantize", {x, residual, weight, {}}, epsilon);
  const Results separate = run("dynamic_quantize", {y, {}}, {});
  expect_same(separate[0], dynamic[0]);
  expect_same(separate[1], dynamic[1]);
  expect_same(sum, dynamic[2]);
}

/// Executors of calls before them serve calls that differ in addresses alone.
TEST(AscendExecutors, CallsOfOneShapeReadAndWriteTheirOwnMemory) {
  const Registry registry = make_catalogue();
  DeviceUnderTest& device = emulated();
  std::mt19937 random(11);
  std::vector<ConformanceCase> calls;
  for (int round = 0; round < 3; ++round) {
    const auto rows = [&] { return random_tensor(DType::kBF16, {4, 64}, random); };
    const Tensor weight = random_tensor(DType::kBF16, {64}, random);
    calls.push_back({.op = "add", .name = "", .inputs = {rows(), rows()}});
    calls.push_back({.op = "rms_norm", .name = "", .inputs = {rows(), weight}, .attributes = {1e-6}});
    // The same but for a number that the first phase takes.
    calls.push_back({.op = "rms_norm", .name = "", .inputs = {rows(), weight}, .attributes = {0.5}});
    calls.push_back({.op = "add_rms_norm", .name = "", .inputs = {rows(), rows(), weight}, .attributes = {1e-6}});
    calls.push_back({.op = "swiglu", .name = "", .inputs = {rows(), rows()}});
  }
  for (const ConformanceCase& one : calls) {
    const Results expected = run_reference(registry, one);
    const Results results = device.run(one);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i) expect_within(expected[i], results[i], rounded(DType::kBF16, 1e-6));
  }
}

INSTANTIATE_TEST_SUITE_P(Ascend, AscendConformance, ::testing::ValuesIn(operators_with_kernels()),
                         [](const auto& case_info) { return case_info.param; });

}  // namespace
}  // namespace reprise::ops

#endif  // REPRISE_EMULATOR_DIR
