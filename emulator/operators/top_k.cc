// aclnnTopk and aclnnMaxDim: the largest (or smallest) elements along an axis, and where they are. Of equal ones the
// first; NaN counts as larger than all.
#include <algorithm>
#include <numeric>
#include <vector>

#include "emulator/operators/axis.h"
#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

struct TopKParameters {
  AxisSplit split;
  int64_t chosen = 1;
  int64_t largest = 1;
};

/// The lines of a tensor as numbers that hold its elements exactly.
template <typename Number>
Number element(const HostTensor& tensor, int64_t index) {
  if constexpr (std::is_same_v<Number, int64_t>) {
    return integer_at(tensor.at(0), tensor->dtype, index);
  } else {
    if (tensor->dtype == ACL_DOUBLE) return tensor.data<double>()[index];
    float value = 0;
    read_row(tensor, index, 1, &value);
    return static_cast<double>(value);
  }
}

template <typename Number>
bool is_before(Number a, Number b, bool largest) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::isnan(a) || std::isnan(b))
      return largest ? std::isnan(a) && !std::isnan(b) : std::isnan(b) && !std::isnan(a);
  }
  return largest ? a > b : a < b;
}

template <typename Number>
void choose(const KernelCall<TopKParameters>& call) {
  const TopKParameters& p = call.parameters();
  const HostTensor& from = call[0];
  const HostTensor& values = call[1];
  const HostTensor& indices = call[2];
  const size_t bytes = size_of(from->dtype);
  std::vector<Number> line(static_cast<size_t>(p.split.size));
  std::vector<int64_t> order(line.size());
  for (int64_t l = 0; l < p.split.lines(); ++l) {
    const int64_t first = p.split.first_of(l);
    for (size_t i = 0; i < line.size(); ++i) {
      line[i] = element<Number>(from, first + static_cast<int64_t>(i) * p.split.inner);
    }
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + p.chosen, order.end(), [&](int64_t a, int64_t b) {
      const Number x = line[static_cast<size_t>(a)];
      const Number y = line[static_cast<size_t>(b)];
      if (is_before(x, y, p.largest != 0)) return true;
      return !is_before(y, x, p.largest != 0) && a < b;
    });
    const int64_t to = l / p.split.inner * p.chosen * p.split.inner + l % p.split.inner;
    for (int64_t i = 0; i < p.chosen; ++i) {
      const int64_t at = order[static_cast<size_t>(i)];
      std::memcpy(values.at(to + i * p.split.inner), from.at(first + at * p.split.inner), bytes);
      set_integer(indices.at(0), indices->dtype, to + i * p.split.inner, at);
    }
  }
}

bool run_top_k(const KernelCall<TopKParameters>& call) {
  const bool real = is_float(call[0]->dtype) || call[0]->dtype == ACL_DOUBLE;
  real ? choose<double>(call) : choose<int64_t>(call);
  return true;
}

constexpr Kernel kTopK = make_kernel<TopKParameters, run_top_k>("TopKV2");
constexpr Kernel kMaxDim = make_kernel<TopKParameters, run_top_k>("ArgMaxWithValue");

/// The shape with `size` elements along the axis; 0: without that axis.
std::vector<int64_t> shape_with(const TensorArgument& tensor, int64_t axis, int64_t size, bool keep) {
  std::vector<int64_t> shape(tensor.shape().begin(), tensor.shape().end());
  if (shape.empty()) return shape;
  if (keep) {
    shape[static_cast<size_t>(axis)] = size;
  } else {
    shape.erase(shape.begin() + axis);
  }
  return shape;
}

void add_choice(Plan& plan, const Kernel& kernel, const TensorArgument& x, const TensorArgument& values,
                const TensorArgument& indices, const TopKParameters& parameters, const std::vector<int64_t>& shape) {
  require(values.dtype == x.dtype, "the values have dtype {}, self has {}", static_cast<int>(values.dtype),
          static_cast<int>(x.dtype));
  for (const TensorArgument* out : {&values, &indices}) {
    require(std::ranges::equal(out->shape(), shape), "an output has the wrong shape");
  }
  plan.launch(kernel, {plan.contiguous(x)}, {plan.staged(values), plan.staged(indices)}, parameters, {},
              parameters.split.lines());
}

void build_top_k(Plan& plan, const aclTensor* self, int64_t k, int64_t dim, bool largest, aclTensor* values_out,
                 aclTensor* indices_out) {
  const TensorArgument x = plan.input(self, "self");
  const TensorArgument values = plan.output(values_out, "valuesOut");
  const TensorArgument indices = plan.output(indices_out, "indicesOut");
  require(x.dtype != ACL_BOOL && x.dtype != ACL_UINT64, "self has dtype {}", static_cast<int>(x.dtype));
  require(indices.dtype == ACL_INT64, "indicesOut has dtype {}, expected int64", static_cast<int>(indices.dtype));
  const int64_t axis = axis_of(x, dim);
  const AxisSplit split = split_at(x, axis);
  require(k >= 0 && k <= split.size, "k is {}, expected 0 to {}", k, split.size);
  add_choice(plan, kTopK, x, values, indices, {split, k, largest ? 1 : 0}, shape_with(x, axis, k, true));
}

void build_max_dim(Plan& plan, const aclTensor* self, int64_t dim, bool keep, aclTensor* out, aclTensor* indices_out) {
  const TensorArgument x = plan.input(self, "self");
  const TensorArgument values = plan.output(out, "out");
  const TensorArgument indices = plan.output(indices_out, "indices");
  require(is_float(x.dtype) || x.dtype == ACL_INT64 || x.dtype == ACL_BOOL, "self has dtype {}",
          static_cast<int>(x.dtype));
  require(indices.dtype == ACL_INT32, "indices have dtype {}, expected int32", static_cast<int>(indices.dtype));
  const int64_t axis = axis_of(x, dim);
  const AxisSplit split = split_at(x, axis);
  require(split.size > 0, "there are no elements along dim {}", dim);
  add_choice(plan, kMaxDim, x, values, indices, {split, 1, 1}, shape_with(x, axis, 1, keep));
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

// The order is the sorted one also where it may be any.
aclnnStatus aclnnTopkGetWorkspaceSize(const aclTensor* self, int64_t k, int64_t dim, bool largest, bool sorted,
                                      aclTensor* valuesOut, aclTensor* indicesOut, uint64_t* workspaceSize,
                                      aclOpExecutor** executor) {
  return phase_one("aclnnTopk", EMULATOR_GIVEN(self, k, dim, largest, sorted, valuesOut, indicesOut), workspaceSize,
                   executor, [&](Plan& plan) { build_top_k(plan, self, k, dim, largest, valuesOut, indicesOut); });
}

aclnnStatus aclnnMaxDimGetWorkspaceSize(const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out,
                                        aclTensor* indices, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnMaxDim", EMULATOR_GIVEN(self, dim, keepdim, out, indices), workspaceSize, executor,
                   [&](Plan& plan) { build_max_dim(plan, self, dim, keepdim, out, indices); });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnTopk)
EMULATOR_PHASE_TWO(aclnnMaxDim)
