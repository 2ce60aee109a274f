// aclnnDynamicQuant, aclnnAscendQuant and V3, and aclnnQuantize.
#include <algorithm>
#include <string_view>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/quantize_rows.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

bool run_dynamic_quant(const KernelCall<NoParameters>& call) {
  const int64_t columns = call[0]->columns();
  const ColumnValues smooth(read_all(call[1]), 1.0F);
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t r = 0; r < call[0]->rows(); ++r) {
    read_row(call[0], r * columns, columns, row.data());
    if (call[1].defined()) {
      for (int64_t i = 0; i < columns; ++i) row[static_cast<size_t>(i)] *= smooth[i];
    }
    call[3].data<float>()[r] = dynamic_quantize_row(row.data(), columns, call[2].data<int8_t>() + r * columns);
  }
  return true;
}

constexpr Kernel kDynamicQuant = make_kernel<NoParameters, run_dynamic_quant>("DynamicQuant");

void build_dynamic_quant(Plan& plan, const aclTensor* x, const aclTensor* smooth, const aclTensor* y,
                         const aclTensor* scale) {
  const TensorArgument from = plan.input(x, "x");
  const TensorArgument factors = plan.optional_input(smooth);
  const TensorArgument to = plan.output(y, "yOut");
  const TensorArgument scales = plan.output(scale, "scaleOut");
  require(from.dtype == ACL_FLOAT16 || from.dtype == ACL_BF16, "x has dtype {}, expected 16-bit floating point",
          static_cast<int>(from.dtype));
  require(from.rank >= 2 && to.dtype == ACL_INT8 && scales.dtype == ACL_FLOAT, "yOut or scaleOut has the wrong dtype");
  require(std::ranges::equal(from.shape(), to.shape()), "yOut has another shape than x");
  require(scales.elements() == from.rows(), "scaleOut has {} elements, expected {}", scales.elements(), from.rows());
  require(!factors.defined() || (factors.elements() == from.columns() && factors.dtype == from.dtype),
          "smoothScales has {} elements of dtype {}", factors.elements(), static_cast<int>(factors.dtype));
  plan.launch(kDynamicQuant, {plan.contiguous(from), plan.contiguous(factors)}, {plan.staged(to), plan.staged(scales)},
              NoParameters{}, {}, from.rows());
}

enum class Rounding : int32_t { kNearest, kFloor, kCeil, kTruncate };

struct QuantParameters {
  Rounding rounding = Rounding::kNearest;
  int32_t squared = 0;  ///< the scale is multiplied twice
};

bool run_quant(const KernelCall<QuantParameters>& call) {
  const QuantParameters& parameters = call.parameters();
  const int64_t columns = call[0]->columns();
  std::vector<float> scales = read_all(call[1]);
  for (float& scale : scales) scale *= parameters.squared != 0 ? scale : 1.0F;
  const ColumnValues scale(std::move(scales));
  const ColumnValues offset(read_all(call[2]));
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t r = 0; r < call[0]->rows(); ++r) {
    read_row(call[0], r * columns, columns, row.data());
    auto* to = call[3].data<int8_t>() + r * columns;
    for (int64_t i = 0; i < columns; ++i) {
      float value = row[static_cast<size_t>(i)] * scale[i] + offset[i];
      if (parameters.rounding == Rounding::kFloor) value = std::floor(value);
      if (parameters.rounding == Rounding::kCeil) value = std::ceil(value);
      if (parameters.rounding == Rounding::kTruncate) value = std::trunc(value);
      to[i] = float_to_int8(value);
    }
  }
  return true;
}

constexpr Kernel kAscendQuant = make_kernel<QuantParameters, run_quant>("AscendQuantV2");

Rounding rounding_of(const char* mode) {
  const std::string_view name = mode == nullptr ? "round" : mode;
  if (name == "round") return Rounding::kNearest;
  if (name == "floor") return Rounding::kFloor;
  if (name == "ceil") return Rounding::kCeil;
  require(name == "trunc", "roundMode is \"{}\"", name);
  return Rounding::kTruncate;
}

void build_quant(Plan& plan, const aclTensor* x, const aclTensor* scale, const aclTensor* offset, bool sqrt_mode,
                 const char* round_mode, int32_t dtype, int32_t axis, const aclTensor* y) {
  const TensorArgument from = plan.input(x, "x");
  const TensorArgument scales = plan.input(scale, "scale");
  const TensorArgument offsets = plan.optional_input(offset);
  const TensorArgument to = plan.output(y, "y");
  require(is_float(from.dtype) && is_float(scales.dtype), "x or scale has the wrong dtype");
  require(from.dtype == scales.dtype, "scale has dtype {}, x has {}", static_cast<int>(scales.dtype),
          static_cast<int>(from.dtype));
  require(!offsets.defined() || offsets.dtype == scales.dtype, "offset has another dtype than scale");
  require(dtype == ACL_INT8 && to.dtype == ACL_INT8, "dstType is {}, expected int8", dtype);
  require(axis == -1 || axis == from.rank - 1, "axis is {}, expected the last one", axis);
  require(std::ranges::equal(from.shape(), to.shape()), "y has another shape than x");
  for (const TensorArgument* vector : {&scales, &offsets}) {
    const int64_t count = vector->defined() ? vector->elements() : 1;
    require(count == 1 || count == from.columns(), "scale or offset has {} elements, expected {}", count,
            from.columns());
  }
  plan.launch(kAscendQuant, {plan.contiguous(from), plan.contiguous(scales), plan.contiguous(offsets)},
              {plan.staged(to)}, QuantParameters{rounding_of(round_mode), sqrt_mode ? 1 : 0});
}

bool run_quantize(const KernelCall<NoParameters>& call) {
  const int64_t columns = call[0]->columns();
  const ColumnValues scale(read_all(call[1]));
  const ColumnValues offset(read_all(call[2]));
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t r = 0; r < call[0]->rows(); ++r) {
    read_row(call[0], r * columns, columns, row.data());
    quantize_row(row.data(), columns, scale, offset, true, call[3].data<int8_t>() + r * columns);
  }
  return true;
}

constexpr Kernel kQuantize = make_kernel<NoParameters, run_quantize>("Quantize");

void build_quantize(Plan& plan, const aclTensor* x, const aclTensor* scales, const aclTensor* zero_points,
                    aclDataType dtype, int32_t axis, const aclTensor* out) {
  const TensorArgument from = plan.input(x, "x");
  const TensorArgument factors = plan.input(scales, "scales");
  const TensorArgument offsets = plan.optional_input(zero_points);
  const TensorArgument to = plan.output(out, "out");
  require(is_float(from.dtype) && (from.dtype == ACL_FLOAT ? is_float(factors.dtype) : factors.dtype == from.dtype),
          "scales have dtype {}, x has {}", static_cast<int>(factors.dtype), static_cast<int>(from.dtype));
  const bool points_fit = !offsets.defined() || offsets.dtype == ACL_INT32 || offsets.dtype == ACL_INT8 ||
                          (offsets.dtype == ACL_BF16 && from.dtype == ACL_BF16);
  require(points_fit, "zeroPoints have dtype {}, x has {}", static_cast<int>(offsets.dtype),
          static_cast<int>(from.dtype));
  require(dtype == ACL_INT8 && to.dtype == ACL_INT8, "dtype is {}, expected int8", static_cast<int>(dtype));
  require(std::ranges::equal(from.shape(), to.shape()), "out has another shape than x");
  const int64_t count = factors.elements();
  require(!offsets.defined() || offsets.elements() == count, "scales and zeroPoints differ in size");
  require(count == 1 || axis == -1 || axis == from.rank - 1, "axis is {}, expected the last one", axis);
  require(count == 1 || count == from.columns(), "scales have {} elements, expected {}", count, from.columns());
  plan.launch(kQuantize, {plan.contiguous(from), plan.contiguous(factors), plan.contiguous(offsets)}, {plan.staged(to)},
              NoParameters{});
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnDynamicQuantGetWorkspaceSize(const aclTensor* x, const aclTensor* smoothScalesOptional,
                                              const aclTensor* yOut, const aclTensor* scaleOut, uint64_t* workspaceSize,
                                              aclOpExecutor** executor) {
  return phase_one("aclnnDynamicQuant", EMULATOR_GIVEN(x, smoothScalesOptional, yOut, scaleOut), workspaceSize,
                   executor, [&](Plan& plan) { build_dynamic_quant(plan, x, smoothScalesOptional, yOut, scaleOut); });
}

aclnnStatus aclnnAscendQuantGetWorkspaceSize(const aclTensor* x, const aclTensor* scale, const aclTensor* offset,
                                             bool sqrtMode, const char* roundMode, int32_t dstType, const aclTensor* y,
                                             uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnAscendQuant", EMULATOR_GIVEN(x, scale, offset, sqrtMode, roundMode, dstType, y), workspaceSize,
                   executor,
                   [&](Plan& plan) { build_quant(plan, x, scale, offset, sqrtMode, roundMode, dstType, -1, y); });
}

aclnnStatus aclnnAscendQuantV3GetWorkspaceSize(const aclTensor* x, const aclTensor* scale,
                                               const aclTensor* offsetOptional, bool sqrtMode, const char* roundMode,
                                               int32_t dstType, int32_t axis, const aclTensor* yOut,
                                               uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one(
      "aclnnAscendQuantV3", EMULATOR_GIVEN(x, scale, offsetOptional, sqrtMode, roundMode, dstType, axis, yOut),
      workspaceSize, executor,
      [&](Plan& plan) { build_quant(plan, x, scale, offsetOptional, sqrtMode, roundMode, dstType, axis, yOut); });
}

aclnnStatus aclnnQuantizeGetWorkspaceSize(const aclTensor* x, const aclTensor* scales, const aclTensor* zeroPoints,
                                          aclDataType dtype, int32_t axis, aclTensor* out, uint64_t* workspaceSize,
                                          aclOpExecutor** executor) {
  return phase_one("aclnnQuantize", EMULATOR_GIVEN(x, scales, zeroPoints, dtype, axis, out), workspaceSize, executor,
                   [&](Plan& plan) { build_quantize(plan, x, scales, zeroPoints, dtype, axis, out); });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnDynamicQuant)
EMULATOR_PHASE_TWO(aclnnAscendQuant)
EMULATOR_PHASE_TWO(aclnnAscendQuantV3)
EMULATOR_PHASE_TWO(aclnnQuantize)
