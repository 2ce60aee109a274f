// aclnnMoeGatingTopKSoftmax and V2: which experts each token takes, with their weights.
#include <algorithm>
#include <vector>

#include "emulator/operators/choice.h"
#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

struct GatingParameters {
  int64_t chosen = 1;
  int64_t renormalize = 0;  ///< the softmax is over the chosen experts alone
};

/// The tensors: x, finished, y, experts, the softmax of all, the number of each choice.
bool run_gating(const KernelCall<GatingParameters>& call) {
  const auto& [chosen, renormalize] = call.parameters();
  const int64_t experts = call[0]->columns();
  const int64_t rows = call[0]->rows();
  std::vector<float> values(static_cast<size_t>(experts));
  std::vector<float> weights(static_cast<size_t>(chosen));
  std::vector<int32_t> order;
  for (int64_t row = 0; row < rows; ++row) {
    read_row(call[0], row * experts, experts, values.data());
    best_first(values, chosen, order);
    if (renormalize == 0) softmax(values);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = values[static_cast<size_t>(order[i])];
    if (renormalize != 0) softmax(weights);
    write_row(call[2], row * chosen, chosen, weights.data());
    if (call[4].defined()) write_row(call[4], row * experts, experts, values.data());
    const bool finished = call[1].defined() && call[1].data<uint8_t>()[row] != 0;
    auto* to = call[3].data<int32_t>() + row * chosen;
    for (int64_t i = 0; i < chosen; ++i)
      to[i] = finished ? static_cast<int32_t>(experts) : order[static_cast<size_t>(i)];
    if (!call[5].defined()) continue;
    for (int64_t i = 0; i < chosen; ++i) {
      call[5].data<int32_t>()[row * chosen + i] = static_cast<int32_t>(i * rows + row);
    }
  }
  return true;
}

constexpr Kernel kGating = make_kernel<GatingParameters, run_gating>("MoeGatingTopKSoftmax");
constexpr Kernel kGatingV2 = make_kernel<GatingParameters, run_gating>("MoeGatingTopKSoftmaxV2");

struct GatingArguments {
  TensorArgument x, finished, y, experts, all, row_index;
};

void add_gating(Plan& plan, const Kernel& kernel, const GatingArguments& a, const GatingParameters& parameters) {
  const auto& [k, renormalize] = parameters;
  require(is_float(a.x.dtype) && a.y.dtype == a.x.dtype && a.experts.dtype == ACL_INT32,
          "a tensor has the wrong dtype");
  require(a.x.rank >= 2 && k <= a.x.columns(), "k is {} of {} experts", k, a.x.columns());
  require(a.y.columns() == k && a.y.rows() == a.x.rows() && std::ranges::equal(a.y.shape(), a.experts.shape()),
          "yOut or expertIdxOut has the wrong shape");
  require(!a.finished.defined() || (a.finished.dtype == ACL_BOOL && a.finished.elements() == a.x.rows()),
          "finished has {} elements of dtype {}", a.finished.elements(), static_cast<int>(a.finished.dtype));
  require(!a.all.defined() || (a.all.dtype == ACL_FLOAT && a.all.elements() == a.x.elements()),
          "softmaxResultOut has the wrong dtype or shape");
  plan.launch(kernel, {plan.contiguous(a.x), plan.contiguous(a.finished)},
              {plan.staged(a.y), plan.staged(a.experts), plan.staged(a.all), plan.staged(a.row_index)}, parameters, {},
              a.x.rows());
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnMoeGatingTopKSoftmaxGetWorkspaceSize(const aclTensor* x, const aclTensor* finishedOptional, int64_t k,
                                                      const aclTensor* yOut, const aclTensor* expertIdxOut,
                                                      const aclTensor* rowIdxOut, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor) {
  return phase_one("aclnnMoeGatingTopKSoftmax", EMULATOR_GIVEN(x, finishedOptional, k, yOut, expertIdxOut, rowIdxOut),
                   workspaceSize, executor, [&](Plan& plan) {
                     GatingArguments a;
                     a.x = plan.input(x, "x");
                     a.finished = plan.optional_input(finishedOptional);
                     a.y = plan.output(yOut, "yOut");
                     a.experts = plan.output(expertIdxOut, "expertIdxOut");
                     a.row_index = plan.output(rowIdxOut, "rowIdxOut");
                     require(a.x.rank <= 3 && k >= 0 && k <= 1024,
                             "x has {} dimensions, k is {}: expected 2 or 3, and at most 1024", a.x.rank, k);
                     require(a.row_index.dtype == ACL_INT32 && std::ranges::equal(a.row_index.shape(), a.y.shape()),
                             "rowIdxOut has the wrong dtype or shape");
                     add_gating(plan, kGating, a, {.chosen = k});
                   });
}

aclnnStatus aclnnMoeGatingTopKSoftmaxV2GetWorkspaceSize(const aclTensor* x, const aclTensor* finishedOptional,
                                                        int64_t k, int64_t renorm, bool softmaxFlag,
                                                        const aclTensor* yOut, const aclTensor* expertIdxOut,
                                                        const aclTensor* softmaxResultOut, uint64_t* workspaceSize,
                                                        aclOpExecutor** executor) {
  return phase_one("aclnnMoeGatingTopKSoftmaxV2",
                   EMULATOR_GIVEN(x, finishedOptional, k, renorm, softmaxFlag, yOut, expertIdxOut, softmaxResultOut),
                   workspaceSize, executor, [&](Plan& plan) {
                     GatingArguments a;
                     a.x = plan.input(x, "x");
                     a.finished = plan.optional_input(finishedOptional);
                     a.y = plan.output(yOut, "yOut");
                     a.experts = plan.output(expertIdxOut, "expertIdxOut");
                     a.all = plan.optional_output(softmaxResultOut);
                     require(k > 0, "k is {}", k);
                     require(renorm == 0 || renorm == 1, "renorm is {}, expected 0 or 1", renorm);
                     if (!softmaxFlag || renorm == 1) a.all = {};
                     add_gating(plan, kGatingV2, a, {k, renorm});
                   });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnMoeGatingTopKSoftmax)
EMULATOR_PHASE_TWO(aclnnMoeGatingTopKSoftmaxV2)
