// silu(gate) * up of two halves of a tensor, by itself and with the quantisation around it. silu(gate) is rounded as if
// stored before it is multiplied.
#include <algorithm>
#include <string_view>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/quantize_rows.h"
#include "emulator/operators/rows.h"
#include "emulator/operators/silu.h"

namespace reprise::emulator {
namespace {

struct SwigluParameters {
  int64_t inner = 1;  ///< elements of one half
  int32_t activate_left = 1;
  int32_t dynamic = 0;
};

/// One half times the activated other, as it would be stored in `dtype`.
void swiglu_row(const float* both, int64_t columns, bool activate_left, aclDataType dtype, float* to) {
  const float* gate = activate_left ? both : both + columns;
  const float* up = activate_left ? both + columns : both;
  for (int64_t i = 0; i < columns; ++i) to[i] = silu(gate[i]);
  round_all(to, columns, dtype);
  for (int64_t i = 0; i < columns; ++i) to[i] *= up[i];
  round_all(to, columns, dtype);
}

bool run_swiglu(const KernelCall<SwigluParameters>& call) {
  const int64_t columns = call.parameters().inner;
  std::vector<float> both(static_cast<size_t>(2 * columns));
  std::vector<float> result(static_cast<size_t>(columns));
  for (int64_t row = 0; row < call[1]->elements() / columns; ++row) {
    read_row(call[0], 2 * row * columns, 2 * columns, both.data());
    swiglu_row(both.data(), columns, true, call[0]->dtype, result.data());
    write_row(call[1], row * columns, columns, result.data());
  }
  return true;
}

constexpr Kernel kSwiglu = make_kernel<SwigluParameters, run_swiglu>("SwiGlu");

void build_swiglu(Plan& plan, const aclTensor* x, int64_t dim, const aclTensor* out) {
  const TensorArgument from = plan.input(x, "x");
  const TensorArgument to = plan.output(out, "out");
  if (dim < 0) dim += from.rank;
  require(dim >= 0 && dim < from.rank && to.rank == from.rank, "dim is {}, expected less than {}", dim, from.rank);
  require(is_float(from.dtype) && to.dtype == from.dtype, "the dtypes are {} and {}", static_cast<int>(from.dtype),
          static_cast<int>(to.dtype));
  SwigluParameters parameters;
  for (int64_t axis = 0; axis < from.rank; ++axis) {
    const auto i = static_cast<size_t>(axis);
    require(from.dims[i] == to.dims[i] * (axis == dim ? 2 : 1), "out has the wrong shape");
    if (axis >= dim) parameters.inner *= to.dims[i];
  }
  plan.launch(kSwiglu, {plan.contiguous(from)}, {plan.staged(to)}, parameters);
}

// The tensors of the quantising kernels; absent ones are undefined.
enum SwigluTensor : size_t { kX, kWeightScale, kRowScale, kBias, kFactors, kOffsets, kGroups, kY, kScaleOut, kTensors };

/// Which group each row is in: the tensor holds how many rows each has, or with kPrefix how many up to its end.
std::vector<int64_t> groups_of_rows(const HostTensor& list, int64_t rows, bool prefix) {
  std::vector<int64_t> groups(static_cast<size_t>(rows), 0);
  int64_t row = 0;
  for (int64_t g = 0; list.defined() && g < list->elements(); ++g) {
    const int64_t value = integer_at(list.at(0), list->dtype, g);
    const int64_t end = prefix ? value : row + value;
    for (; row < end && row < rows; ++row) groups[static_cast<size_t>(row)] = g;
  }
  return groups;
}

/// Element (group, column) of a tensor with a row for each group, or one value for each, or one for all.
template <typename T>
T group_value(const std::vector<T>& values, int64_t groups, int64_t group, int64_t column, T otherwise) {
  if (values.empty()) return otherwise;
  const auto count = static_cast<int64_t>(values.size());
  if (count == 1) return values[0];
  if (count == groups) return values[static_cast<size_t>(group)];
  const int64_t columns = count / groups;
  return values[static_cast<size_t>(group * columns + column)];
}

/// A row of x in float32; int32 sums with their scales and bias.
class RowReader {
 public:
  RowReader(const KernelCall<SwigluParameters>& call, int64_t groups)
      : x_(call[kX]),
        groups_(groups),
        weight_scale_(read_all(call[kWeightScale])),
        row_scale_(read_all(call[kRowScale])),
        bias_(integer_bias(call) ? std::vector<float>() : read_all(call[kBias])) {
    if (!integer_bias(call)) return;
    integer_bias_.assign(call[kBias].data<int32_t>(), call[kBias].data<int32_t>() + call[kBias]->elements());
  }

  void read(int64_t row, int64_t group, std::vector<float>& to) const {
    const auto columns = static_cast<int64_t>(to.size());
    if (x_->dtype != ACL_INT32) {
      read_row(x_, row * columns, columns, to.data());
      return;
    }
    const float of_row = row_scale_.empty() ? 1.0F : row_scale_[static_cast<size_t>(row)];
    for (int64_t i = 0; i < columns; ++i) {
      auto sum = static_cast<uint32_t>(x_.data<int32_t>()[row * columns + i]);
      sum += static_cast<uint32_t>(group_value(integer_bias_, groups_, group, i, 0));
      const float scaled =
          static_cast<float>(static_cast<int32_t>(sum)) * group_value(weight_scale_, groups_, group, i, 1.0F);
      to[static_cast<size_t>(i)] = scaled * of_row + group_value(bias_, groups_, group, i, 0.0F);
    }
  }

 private:
  static bool integer_bias(const KernelCall<SwigluParameters>& call) {
    return call[kBias].defined() && call[kBias]->dtype == ACL_INT32;
  }

  const HostTensor& x_;
  int64_t groups_;
  std::vector<float> weight_scale_, row_scale_, bias_;
  std::vector<int32_t> integer_bias_;
};

template <bool kPrefix>
bool run_swiglu_quant(const KernelCall<SwigluParameters>& call) {
  const SwigluParameters& parameters = call.parameters();
  const int64_t columns = parameters.inner;
  const int64_t rows = call[kY]->elements() / columns;
  const int64_t groups = call[kGroups].defined() ? call[kGroups]->elements() : 1;
  const std::vector<int64_t> group_of = groups_of_rows(call[kGroups], rows, kPrefix);
  const RowReader reader(call, groups);
  const std::vector<float> factors = read_all(call[kFactors]);
  const std::vector<float> offsets = read_all(call[kOffsets]);
  // Sums of products have no 16-bit format that they would be stored in between.
  const aclDataType stored = call[kX]->dtype == ACL_INT32 ? ACL_FLOAT : call[kX]->dtype;
  std::vector<float> both(static_cast<size_t>(2 * columns));
  std::vector<float> result(static_cast<size_t>(columns));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t group = group_of[static_cast<size_t>(row)];
    reader.read(row, group, both);
    swiglu_row(both.data(), columns, parameters.activate_left != 0, stored, result.data());
    auto* y = call[kY].data<int8_t>() + row * columns;
    for (int64_t i = 0; i < columns; ++i) {
      float& value = result[static_cast<size_t>(i)];
      value *= group_value(factors, groups, group, i, 1.0F);
      if (parameters.dynamic == 0) value += group_value(offsets, groups, group, i, 0.0F);
      if (parameters.dynamic == 0) y[i] = float_to_int8(value);
    }
    if (parameters.dynamic != 0) call[kScaleOut].data<float>()[row] = dynamic_quantize_row(result.data(), columns, y);
  }
  return true;
}

constexpr Kernel kSwigluQuant = make_kernel<SwigluParameters, run_swiglu_quant<true>>("SwiGluQuant");
constexpr Kernel kDequantSwigluQuant = make_kernel<SwigluParameters, run_swiglu_quant<false>>("DequantSwigluQuant");

bool is_dynamic(const char* mode, const char* otherwise) {
  const std::string_view name = mode == nullptr ? otherwise : mode;
  require(name == "static" || name == "dynamic", "quantMode is \"{}\"", name);
  return name == "dynamic";
}

/// Checks what both operators share, and launches.
void add_swiglu_quant(Plan& plan, const Kernel& kernel, std::array<TensorArgument, kTensors> tensors,
                      bool activate_left, bool dynamic) {
  const TensorArgument& x = tensors[kX];
  const TensorArgument& y = tensors[kY];
  require(x.rank >= 2 && y.rank == x.rank && x.columns() == 2 * y.columns() && x.rows() == y.rows(),
          "y's shape does not go with x's");
  require(y.dtype == ACL_INT8 && tensors[kScaleOut].dtype == ACL_FLOAT, "y or scale has the wrong dtype");
  require(tensors[kScaleOut].elements() == x.rows(), "scale has {} elements, expected {}",
          tensors[kScaleOut].elements(), x.rows());
  const int64_t groups = tensors[kGroups].defined() ? tensors[kGroups].elements() : 1;
  for (const SwigluTensor i : {kWeightScale, kBias, kFactors, kOffsets}) {
    const int64_t columns = i == kWeightScale || i == kBias ? x.columns() : y.columns();
    const int64_t count = tensors[i].defined() ? tensors[i].elements() : 1;
    require(count == 1 || count == groups || count == groups * columns, "a scale or offset has {} elements", count);
  }
  SwigluParameters parameters{.inner = y.columns(), .activate_left = activate_left ? 1 : 0, .dynamic = dynamic ? 1 : 0};
  require(parameters.dynamic == 1 || tensors[kFactors].defined(), "static quantisation without scales");
  for (size_t i = 0; i < kY; ++i) tensors[i] = plan.contiguous(tensors[i]);
  for (size_t i = kY; i < kTensors; ++i) tensors[i] = plan.staged(tensors[i]);
  const std::span<const TensorArgument> all(tensors);
  plan.launch_bytes(kernel, all.first(kY), all.subspan(kY), &parameters, sizeof(parameters), {}, tensors[kX].rows());
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnSwiGluGetWorkspaceSize(const aclTensor* x, int64_t dim, const aclTensor* out, uint64_t* workspaceSize,
                                        aclOpExecutor** executor) {
  return phase_one("aclnnSwiGlu", EMULATOR_GIVEN(x, dim, out), workspaceSize, executor,
                   [&](Plan& plan) { build_swiglu(plan, x, dim, out); });
}

aclnnStatus aclnnSwiGluQuantGetWorkspaceSize(const aclTensor* x, const aclTensor* smoothScalesOptional,
                                             const aclTensor* offsetsOptional, const aclTensor* groupIndexOptional,
                                             bool activateLeft, char* quantModeOptional, const aclTensor* yOut,
                                             const aclTensor* scaleOut, uint64_t* workspaceSize,
                                             aclOpExecutor** executor) {
  return phase_one("aclnnSwiGluQuant",
                   EMULATOR_GIVEN(x, smoothScalesOptional, offsetsOptional, groupIndexOptional, activateLeft,
                                  quantModeOptional, yOut, scaleOut),
                   workspaceSize, executor, [&](Plan& plan) {
                     std::array<TensorArgument, kTensors> tensors;
                     tensors[kX] = plan.input(x, "x");
                     tensors[kFactors] = plan.optional_input(smoothScalesOptional);
                     tensors[kOffsets] = plan.optional_input(offsetsOptional);
                     tensors[kGroups] = plan.optional_input(groupIndexOptional);
                     tensors[kY] = plan.output(yOut, "yOut");
                     tensors[kScaleOut] = plan.output(scaleOut, "scaleOut");
                     require(is_float(tensors[kX].dtype), "x has dtype {}, expected floating point",
                             static_cast<int>(tensors[kX].dtype));
                     require(tensors[kFactors].defined() && tensors[kFactors].dtype == ACL_FLOAT,
                             "smoothScales are not float32 or absent");
                     require(tensors[kX].rank == 0 || tensors[kX].columns() <= 8192,
                             "x has {} columns, expected at most 8192", tensors[kX].columns());
                     add_swiglu_quant(plan, kSwigluQuant, tensors, activateLeft,
                                      is_dynamic(quantModeOptional, "dynamic"));
                   });
}

aclnnStatus aclnnDequantSwigluQuantGetWorkspaceSize(
    const aclTensor* x, const aclTensor* weightScaleOptional, const aclTensor* activationScaleOptional,
    const aclTensor* biasOptional, const aclTensor* quantScaleOptional, const aclTensor* quantOffsetOptional,
    const aclTensor* groupIndexOptional, bool activateLeft, char* quantModeOptional, const aclTensor* yOut,
    const aclTensor* scaleOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one(
      "aclnnDequantSwigluQuant",
      EMULATOR_GIVEN(x, weightScaleOptional, activationScaleOptional, biasOptional, quantScaleOptional,
                     quantOffsetOptional, groupIndexOptional, activateLeft, quantModeOptional, yOut, scaleOut),
      workspaceSize, executor, [&](Plan& plan) {
        std::array<TensorArgument, kTensors> tensors;
        tensors[kX] = plan.input(x, "x");
        tensors[kWeightScale] = plan.optional_input(weightScaleOptional);
        tensors[kRowScale] = plan.optional_input(activationScaleOptional);
        tensors[kBias] = plan.optional_input(biasOptional);
        tensors[kFactors] = plan.optional_input(quantScaleOptional);
        tensors[kOffsets] = plan.optional_input(quantOffsetOptional);
        tensors[kGroups] = plan.optional_input(groupIndexOptional);
        tensors[kY] = plan.output(yOut, "yOut");
        tensors[kScaleOut] = plan.output(scaleOut, "scaleOut");
        const bool sums = tensors[kX].dtype == ACL_INT32;
        require(sums || tensors[kX].dtype == ACL_BF16 || tensors[kX].dtype == ACL_FLOAT16, "x has dtype {}",
                static_cast<int>(tensors[kX].dtype));
        require(sums == tensors[kWeightScale].defined(), "weightScale goes with an x of int32 only");
        require(!tensors[kRowScale].defined() || tensors[kRowScale].elements() == tensors[kX].rows(),
                "activationScale has {} elements", tensors[kRowScale].elements());
        add_swiglu_quant(plan, kDequantSwigluQuant, tensors, activateLeft, is_dynamic(quantModeOptional, "static"));
      });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnSwiGlu)
EMULATOR_PHASE_TWO(aclnnSwiGluQuant)
EMULATOR_PHASE_TWO(aclnnDequantSwigluQuant)
