// Operators of one tensor: activations, masks, sequences and sums.
#include <algorithm>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"
#include "emulator/operators/silu.h"

namespace reprise::emulator {
namespace {

template <float (*Function)(float)>
bool run_unary(const KernelCall<NoParameters>& call) {
  std::vector<float> values = read_all(call[0]);
  for (float& value : values) value = Function(value);
  write_row(call[1], 0, call[1]->elements(), values.data());
  return true;
}

float reciprocal(float value) { return 1.0F / value; }

constexpr Kernel kSilu = make_kernel<NoParameters, run_unary<silu>>("Swish");
constexpr Kernel kReciprocal = make_kernel<NoParameters, run_unary<reciprocal>>("Reciprocal");

void build_unary(Plan& plan, const Kernel& kernel, const aclTensor* self, aclTensor* out) {
  const TensorArgument x = plan.input(self, "self");
  const TensorArgument y = plan.output(out, "out");
  require(is_float(x.dtype) && is_float(y.dtype), "the dtypes are {} and {}, expected floating point",
          static_cast<int>(x.dtype), static_cast<int>(y.dtype));
  require(std::ranges::equal(x.shape(), y.shape()), "self and out have different shapes");
  const TensorArgument from = plan.contiguous(x);
  plan.launch(kernel, {from}, {plan.staged(y, x.dtype)}, NoParameters{});
}

struct ScalarParameters {
  double real = 0;
  int64_t integer = 0;
  double step = 0;
  int64_t integer_step = 0;
};

/// The tensor is read and written: elements where the mask is 0 stay.
bool run_masked_fill(const KernelCall<ScalarParameters>& call) {
  const HostTensor& mask = call[0];
  const HostTensor& to = call[2];
  const TensorArgument seen = broadcast_to(*mask, *to);
  const RowOffsets mask_rows(seen);
  const RowOffsets rows(*to);
  const int64_t mask_step = to->rank == 0 ? 1 : seen.stride_back(1);
  const int64_t step = to->rank == 0 ? 1 : to->stride_back(1);
  const auto value = static_cast<float>(call.parameters().real);
  for (int64_t row = 0; row < to->rows(); ++row) {
    for (int64_t i = 0; i < to->columns(); ++i) {
      if (integer_at(mask.at(0), mask->dtype, mask_rows[row] + i * mask_step) == 0) continue;
      std::byte* element = to.at(rows[row] + i * step);
      if (is_float(to->dtype)) {
        from_floats(&value, 1, to->dtype, element);
      } else {
        set_integer(element, to->dtype, 0, call.parameters().integer);
      }
    }
  }
  return true;
}

constexpr Kernel kMaskedFill = make_kernel<ScalarParameters, run_masked_fill>("MaskedFill");

bool run_arange(const KernelCall<ScalarParameters>& call) {
  const ScalarParameters& parameters = call.parameters();
  for (int64_t i = 0; i < call[0]->elements(); ++i) {
    if (is_float(call[0]->dtype)) {
      const auto value = static_cast<float>(parameters.real + static_cast<double>(i) * parameters.step);
      from_floats(&value, 1, call[0]->dtype, call[0].at(i));
    } else {
      set_integer(call[0].at(0), call[0]->dtype, i, parameters.integer + i * parameters.integer_step);
    }
  }
  return true;
}

constexpr Kernel kRange = make_kernel<ScalarParameters, run_arange>("Range");

/// A tensor as [outer, size, inner] around one axis.
struct AxisParameters {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};

AxisParameters around(const TensorArgument& tensor, int64_t axis) {
  AxisParameters parameters;
  for (int64_t i = 0; i < tensor.rank; ++i) {
    int64_t& part = i < axis ? parameters.outer : i == axis ? parameters.size : parameters.inner;
    part *= tensor.dims[static_cast<size_t>(i)];
  }
  return parameters;
}

/// Running sums along the axis (kEach) or the last of them only.
template <bool kEach>
bool run_sums(const KernelCall<AxisParameters>& call) {
  const auto& [outer, size, inner] = call.parameters();
  for (int64_t line = 0; line < outer * inner; ++line) {
    const int64_t first = line / inner * size * inner + line % inner;
    float sum = 0;
    uint64_t integer_sum = 0;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t element = first + i * inner;
      const int64_t to = kEach ? element : line;
      if (is_float(call[0]->dtype)) {
        float value = 0;
        to_floats(call[0].at(element), call[0]->dtype, 1, &value);
        sum += value;
        if (kEach || i + 1 == size) from_floats(&sum, 1, call[1]->dtype, call[1].at(to));
      } else {
        integer_sum += static_cast<uint64_t>(integer_at(call[0].at(0), call[0]->dtype, element));
        set_integer(call[1].at(0), call[1]->dtype, to, static_cast<int64_t>(integer_sum));
      }
    }
  }
  return true;
}

constexpr Kernel kCumsum = make_kernel<AxisParameters, run_sums<true>>("Cumsum");
constexpr Kernel kReduceSum = make_kernel<AxisParameters, run_sums<false>>("ReduceSum");

void build_cumsum(Plan& plan, const aclTensor* self, int64_t dim, aclDataType dtype, aclTensor* out) {
  const TensorArgument x = plan.input(self, "self");
  const TensorArgument y = plan.output(out, "out");
  if (dim < 0) dim += x.rank;
  require(dim >= 0 && dim < x.rank, "dim is {}, expected less than {}", dim, x.rank);
  require(y.dtype == dtype && std::ranges::equal(x.shape(), y.shape()), "out has another dtype or shape");
  const TensorArgument from = plan.contiguous(x, dtype);
  plan.launch(kCumsum, {from}, {plan.staged(y)}, around(x, dim));
}

/// Over neighbouring axes, which are one then.
void build_reduce_sum(Plan& plan, const aclTensor* self, const aclIntArray* dims, bool keep_dims, aclDataType dtype,
                      aclTensor* out) {
  const TensorArgument x = plan.input(self, "self");
  require_pointer(dims, "dims");
  const TensorArgument y = plan.output(out, "out");
  std::vector<int64_t> axes = dims->values;
  for (int64_t& axis : axes) axis += axis < 0 ? x.rank : 0;
  std::ranges::sort(axes);
  require(!axes.empty() && axes.front() >= 0 && axes.back() < x.rank, "dims are not axes of self");
  AxisParameters parameters = around(x, axes.front());
  for (size_t i = 1; i < axes.size(); ++i) {
    require(axes[i] == axes[i - 1] + 1, "dims are not neighbours");
    parameters.inner /= std::max<int64_t>(x.dims[static_cast<size_t>(axes[i])], 1);
    parameters.size *= x.dims[static_cast<size_t>(axes[i])];
  }
  const int32_t rank = keep_dims ? x.rank : x.rank - static_cast<int32_t>(axes.size());
  require(y.dtype == dtype && y.rank == rank && y.elements() == parameters.outer * parameters.inner,
          "out has another dtype or shape");
  require(x.elements() > 0, "a sum of nothing");
  const TensorArgument from = plan.contiguous(x, dtype);
  plan.launch(kReduceSum, {from}, {plan.staged(y)}, parameters);
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnSiluGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                      aclOpExecutor** executor) {
  return phase_one("aclnnSilu", EMULATOR_GIVEN(self, out), workspaceSize, executor,
                   [&](Plan& plan) { build_unary(plan, kSilu, self, out); });
}

aclnnStatus aclnnReciprocalGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                            aclOpExecutor** executor) {
  return phase_one("aclnnReciprocal", EMULATOR_GIVEN(self, out), workspaceSize, executor,
                   [&](Plan& plan) { build_unary(plan, kReciprocal, self, out); });
}

aclnnStatus aclnnInplaceMaskedFillScalarGetWorkspaceSize(aclTensor* selfRef, const aclTensor* mask,
                                                         const aclScalar* value, uint64_t* workspaceSize,
                                                         aclOpExecutor** executor) {
  return phase_one(
      "aclnnInplaceMaskedFillScalar", EMULATOR_GIVEN(selfRef, mask, value), workspaceSize, executor, [&](Plan& plan) {
        const TensorArgument to = plan.in_place(selfRef, "selfRef");
        const TensorArgument from = plan.contiguous(plan.input(mask, "mask"));
        require_pointer(value, "value");
        require(from.dtype == ACL_BOOL || from.dtype == ACL_UINT8, "mask has dtype {}", static_cast<int>(from.dtype));
        bool fits = from.rank <= to.rank;
        for (int32_t axis = 1; fits && axis <= from.rank; ++axis) {
          fits = from.size_back(axis) == 1 || from.size_back(axis) == to.size_back(axis);
        }
        require(fits, "mask cannot be broadcast to selfRef");
        plan.launch(kMaskedFill, {from, to}, {to},
                    ScalarParameters{.real = value->as_double(), .integer = value->as_integer()});
      });
}

aclnnStatus aclnnArangeGetWorkspaceSize(const aclScalar* start, const aclScalar* end, const aclScalar* step,
                                        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnArange", EMULATOR_GIVEN(start, end, step, out), workspaceSize, executor, [&](Plan& plan) {
    for (const aclScalar* scalar : {start, end, step}) require_pointer(scalar, "start, end or step");
    const TensorArgument to = plan.output(out, "out");
    const double count = std::ceil((end->as_double() - start->as_double()) / step->as_double());
    require(step->as_double() != 0 && static_cast<double>(to.elements()) == count, "out has {} elements, expected {}",
            to.elements(), count);
    plan.launch(kRange, {}, {plan.staged(to)},
                ScalarParameters{start->as_double(), start->as_integer(), step->as_double(), step->as_integer()});
  });
}

aclnnStatus aclnnCumsumGetWorkspaceSize(const aclTensor* self, int64_t dim, aclDataType dtype, aclTensor* out,
                                        uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnCumsum", EMULATOR_GIVEN(self, dim, dtype, out), workspaceSize, executor,
                   [&](Plan& plan) { build_cumsum(plan, self, dim, dtype, out); });
}

aclnnStatus aclnnReduceSumGetWorkspaceSize(const aclTensor* self, const aclIntArray* dims, bool keepDims,
                                           aclDataType dtype, aclTensor* out, uint64_t* workspaceSize,
                                           aclOpExecutor** executor) {
  return phase_one("aclnnReduceSum", EMULATOR_GIVEN(self, dims, keepDims, dtype, out), workspaceSize, executor,
                   [&](Plan& plan) { build_reduce_sum(plan, self, dims, keepDims, dtype, out); });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnSilu)
EMULATOR_PHASE_TWO(aclnnReciprocal)
EMULATOR_PHASE_TWO(aclnnInplaceMaskedFillScalar)
EMULATOR_PHASE_TWO(aclnnArange)
EMULATOR_PHASE_TWO(aclnnCumsum)
EMULATOR_PHASE_TWO(aclnnReduceSum)
