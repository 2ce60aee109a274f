// aclnnMoeGatingTopK: experts of the best groups.
#include <algorithm>
#include <vector>

#include "emulator/operators/choice.h"
#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

constexpr int64_t kMostExperts = 2048;
constexpr int64_t kGroupAlignment = 32;

struct GroupedGating {
  int64_t chosen = 1;
  int64_t groups = 1;
  int64_t chosen_groups = 1;
  int32_t by_two = 0;   ///< a group counts as its best two experts
  int32_t sigmoid = 0;  ///< and the weights are divided by their sum
  double factor = 1;
  double epsilon = 0;
};

/// What is not in the best groups becomes -infinity.
void keep_best_groups(const GroupedGating& p, std::vector<float>& scores) {
  const auto size = static_cast<int64_t>(scores.size()) / p.groups;
  std::vector<float> of_groups;
  std::vector<int32_t> order;
  for (int64_t group = 0; group < p.groups; ++group) {
    const std::span<const float> members(scores.data() + group * size, static_cast<size_t>(size));
    const int64_t counted = p.by_two != 0 ? 2 : 1;
    best_first(members, counted, order);
    float score = members[static_cast<size_t>(order[0])];
    if (p.by_two != 0) score += members[static_cast<size_t>(order[1])];
    of_groups.push_back(score);
  }
  best_first(of_groups, p.chosen_groups, order);
  for (size_t i = static_cast<size_t>(p.chosen_groups); i < order.size(); ++i) {
    std::fill_n(scores.begin() + order[i] * size, size, -std::numeric_limits<float>::infinity());
  }
}

/// The tensors: x, bias, y, experts, the normed scores of all.
bool run_grouped_gating(const KernelCall<GroupedGating>& call) {
  const GroupedGating& p = call.parameters();
  const int64_t experts = call[0]->columns();
  const std::vector<float> bias = read_all(call[1]);
  std::vector<float> scores(static_cast<size_t>(experts));
  std::vector<float> biased;
  std::vector<float> weights(static_cast<size_t>(p.chosen));
  std::vector<int32_t> order;
  for (int64_t row = 0; row < call[0]->rows(); ++row) {
    read_row(call[0], row * experts, experts, scores.data());
    if (p.sigmoid != 0) {
      for (float& score : scores) score = 1.0F / (1.0F + std::exp(-score));
    } else {
      softmax(scores);
    }
    if (call[4].defined()) write_row(call[4], row * experts, experts, scores.data());
    biased = scores;
    for (size_t i = 0; i < bias.size(); ++i) biased[i] += bias[i];
    if (p.groups > 1) keep_best_groups(p, biased);
    best_first(biased, p.chosen, order);
    float sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] = scores[static_cast<size_t>(order[i])];
    for (float& weight : weights) {
      if (p.sigmoid != 0) weight /= sum + static_cast<float>(p.epsilon);
      weight *= static_cast<float>(p.factor);
    }
    write_row(call[2], row * p.chosen, p.chosen, weights.data());
    std::copy_n(order.begin(), p.chosen, call[3].data<int32_t>() + row * p.chosen);
  }
  return true;
}

constexpr Kernel kGroupedGating = make_kernel<GroupedGating, run_grouped_gating>("MoeGatingTopK");

void check_groups(const GroupedGating& p, int64_t experts) {
  require(experts > 0 && experts <= kMostExperts, "there are {} experts, expected 1 to {}", experts, kMostExperts);
  require(p.groups > 0 && experts % p.groups == 0, "groupCount is {} for {} experts", p.groups, experts);
  const int64_t size = experts / p.groups;
  const int64_t aligned = (size + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment;
  require(size > p.by_two && aligned * p.groups <= kMostExperts, "groupCount is {} for {} experts", p.groups, experts);
  require(p.chosen_groups > 0 && p.chosen_groups <= p.groups, "kGroup is {} of {} groups", p.chosen_groups, p.groups);
  require(p.chosen > 0 && p.chosen <= size * p.chosen_groups, "k is {} of {} experts in the chosen groups", p.chosen,
          size * p.chosen_groups);
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" aclnnStatus aclnnMoeGatingTopKGetWorkspaceSize(const aclTensor* x, const aclTensor* biasOptional, int64_t k,
                                                          int64_t kGroup, int64_t groupCount, int64_t groupSelectMode,
                                                          int64_t renorm, int64_t normType, bool outFlag,
                                                          double routedScalingFactor, double eps, const aclTensor* yOut,
                                                          const aclTensor* expertIdxOut, const aclTensor* outOut,
                                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one(
      "aclnnMoeGatingTopK",
      EMULATOR_GIVEN(x, biasOptional, k, kGroup, groupCount, groupSelectMode, renorm, normType, outFlag,
                     routedScalingFactor, eps, yOut, expertIdxOut, outOut),
      workspaceSize, executor, [&](Plan& plan) {
        const TensorArgument from = plan.input(x, "x");
        const TensorArgument bias = plan.optional_input(biasOptional);
        const TensorArgument y = plan.output(yOut, "yOut");
        const TensorArgument experts = plan.output(expertIdxOut, "expertIdxOut");
        TensorArgument all = plan.output(outOut, "outOut");
        if (!outFlag) all = {};
        require(is_float(from.dtype) && from.rank == 2, "x has {} dimensions of dtype {}, expected 2 of floating point",
                from.rank, static_cast<int>(from.dtype));
        require(!bias.defined() || (bias.dtype == from.dtype && bias.rank == 1 && bias.elements() == from.columns()),
                "bias has the wrong dtype or shape");
        require(y.dtype == from.dtype && experts.dtype == ACL_INT32, "yOut or expertIdxOut has the wrong dtype");
        require(y.rank == 2 && y.dims[0] == from.dims[0] && y.dims[1] == k &&
                    std::ranges::equal(y.shape(), experts.shape()),
                "yOut or expertIdxOut has the wrong shape");
        require(!all.defined() || (all.dtype == ACL_FLOAT && std::ranges::equal(all.shape(), from.shape())),
                "outOut has the wrong dtype or shape");
        require(groupSelectMode == 0 || groupSelectMode == 1, "groupSelectMode is {}, expected 0 or 1",
                groupSelectMode);
        require(normType == 0 || normType == 1, "normType is {}, expected 0 or 1", normType);
        require(renorm == 0, "renorm is {}, expected 0", renorm);
        const GroupedGating parameters{.chosen = k,
                                       .groups = groupCount,
                                       .chosen_groups = kGroup,
                                       .by_two = static_cast<int32_t>(groupSelectMode),
                                       .sigmoid = static_cast<int32_t>(normType),
                                       .factor = routedScalingFactor,
                                       .epsilon = eps};
        check_groups(parameters, from.columns());
        plan.launch(kGroupedGating, {plan.contiguous(from), plan.contiguous(bias)},
                    {plan.staged(y), plan.staged(experts), plan.staged(all)}, parameters, {}, from.rows());
      });
}
EMULATOR_PHASE_TWO(aclnnMoeGatingTopK)
