// Every operator of the catalogue on the Ascend device over the emulator, against its reference.
#ifdef REPRISE_EMULATOR_DIR

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "device/ascend/ascend_device.h"
#include "device/ascend/library_under_test.h"
#include "kernels/ascend/register_ascend_kernels.h"
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
    const Results expected = run_reference(registry, one);
    const Results results = device.run(one);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i) expect_within(expected[i], results[i], bound_of(one, results[i]));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Ascend, AscendConformance, ::testing::ValuesIn(operators_with_kernels()),
                         [](const auto& case_info) { return case_info.param; });

}  // namespace
}  // namespace reprise::ops

#endif  // REPRISE_EMULATOR_DIR
