// aclnnMoeGatingTopKSoftmaxV2: which experts each token takes, with their weights.
#include <algorithm>
#include <numeric>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

struct GatingParameters {
  int64_t chosen = 1;
  int64_t renormalize = 0;  ///< the softmax is over the chosen experts alone
};

/// The values become their softmax.
void softmax(std::vector<float>& values) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const float value : values) largest = std::max(largest, value);
  float total = 0;
  for (float& value : values) total += value = std::exp(value - largest);
  for (float& value : values) value /= total;
}

/// The largest first, of equal ones the first; NaN last.
void best_experts(const std::vector<float>& values, int64_t count, std::vector<int32_t>& order) {
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int32_t i) {
    const float value = values[static_cast<size_t>(i)];
    return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
  };
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](int32_t a, int32_t b) { return key(a) > key(b) || (key(a) == key(b) && a < b); });
}

/// The tensors: x, finished, y, experts, the softmax of all.
bool run_gating(const KernelCall<GatingParameters>& call) {
  const auto& [chosen, renormalize] = call.parameters();
  const int64_t experts = call[0]->columns();
  std::vector<float> values(static_cast<size_t>(experts));
  std::vector<float> weights(static_cast<size_t>(chosen));
  std::vector<int32_t> order(static_cast<size_t>(experts));
  for (int64_t row = 0; row < call[0]->rows(); ++row) {
    read_row(call[0], row * experts, experts, values.data());
    best_experts(values, chosen, order);
    if (renormalize == 0) softmax(values);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = values[static_cast<size_t>(order[i])];
    if (renormalize != 0) softmax(weights);
    write_row(call[2], row * chosen, chosen, weights.data());
    if (call[4].defined()) write_row(call[4], row * experts, experts, values.data());
    const bool finished = call[1].defined() && call[1].data<uint8_t>()[row] != 0;
    auto* to = call[3].data<int32_t>() + row * chosen;
    for (int64_t i = 0; i < chosen; ++i)
      to[i] = finished ? static_cast<int32_t>(experts) : order[static_cast<size_t>(i)];
  }
  return true;
}

constexpr Kernel kGating = make_kernel<GatingParameters, run_gating>("MoeGatingTopKSoftmaxV2");

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" aclnnStatus aclnnMoeGatingTopKSoftmaxV2GetWorkspaceSize(const aclTensor* x,
                                                                   const aclTensor* finishedOptional, int64_t k,
                                                                   int64_t renorm, bool softmaxFlag,
                                                                   const aclTensor* yOut, const aclTensor* expertIdxOut,
                                                                   const aclTensor* softmaxResultOut,
                                                                   uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnMoeGatingTopKSoftmaxV2", workspaceSize, executor, [&](Plan& plan) {
    const TensorArgument from = plan.input(x, "x");
    const TensorArgument finished = plan.contiguous(plan.optional_input(finishedOptional));
    const TensorArgument y = plan.output(yOut, "yOut");
    const TensorArgument experts = plan.output(expertIdxOut, "expertIdxOut");
    TensorArgument all = plan.optional_output(softmaxResultOut);
    require(is_float(from.dtype) && y.dtype == from.dtype && experts.dtype == ACL_INT32,
            "a tensor has the wrong dtype");
    require(from.rank >= 2 && k > 0 && k <= from.columns(), "k is {} of {} experts", k, from.columns());
    require(y.columns() == k && y.rows() == from.rows() && std::ranges::equal(y.shape(), experts.shape()),
            "yOut or expertIdxOut has the wrong shape");
    require(!finished.defined() || (finished.dtype == ACL_BOOL && finished.elements() == from.rows()),
            "finished has {} elements of dtype {}", finished.elements(), static_cast<int>(finished.dtype));
    require(renorm == 0 || renorm == 1, "renorm is {}, expected 0 or 1", renorm);
    if (!softmaxFlag || renorm == 1) all = {};
    require(!all.defined() || (all.dtype == ACL_FLOAT && all.elements() == from.elements()),
            "softmaxResultOut has the wrong dtype or shape");
    plan.launch(kGating, {plan.contiguous(from), finished}, {plan.staged(y), plan.staged(experts), plan.staged(all)},
                GatingParameters{k, renorm}, {}, from.rows());
  });
}
EMULATOR_PHASE_TWO(aclnnMoeGatingTopKSoftmaxV2)
