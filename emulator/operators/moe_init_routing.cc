// aclnnMoeInitRouting: the first version, in which numbers that come along with the choices say which token each is of.
#include <algorithm>
#include <numeric>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"

namespace reprise::emulator {
namespace {

// The tensors of the kernel: choices with their numbers, and the rows sorted by expert.
enum InitTensor : size_t { kX, kNumbers, kExperts, kExpandedX, kRowIndex, kSortedExperts };

struct InitParameters {
  int64_t rows_out = 0;  ///< most rows that are expanded
};

/// Number n of a choice is of token n % tokens. Of one expert the choices stay in their order.
bool run_init_routing(const KernelCall<InitParameters>& call) {
  const int64_t tokens = call[kX]->rows();
  const int64_t columns = call[kX]->columns();
  const int64_t choices = call[kExperts]->elements();
  const auto* experts = call[kExperts].data<int32_t>();
  const auto* numbers = call[kNumbers].data<int32_t>();
  std::vector<int64_t> order(static_cast<size_t>(choices));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return experts[a] < experts[b]; });
  for (int64_t i = 0; i < choices; ++i) {
    const int64_t from = order[static_cast<size_t>(i)];
    const int32_t number = numbers[from];
    if (number < 0 || number >= choices) return false;
    call[kRowIndex].data<int32_t>()[number] = static_cast<int32_t>(i);
    call[kSortedExperts].data<int32_t>()[i] = experts[from];
    if (i >= call.parameters().rows_out) continue;
    std::memcpy(call[kExpandedX].at(i * columns), call[kX].at(number % tokens * columns),
                static_cast<size_t>(columns) * size_of(call[kX]->dtype));
  }
  return true;
}

constexpr Kernel kInitRouting = make_kernel<InitParameters, run_init_routing>("MoeInitRouting");

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" aclnnStatus aclnnMoeInitRoutingGetWorkspaceSize(const aclTensor* x, const aclTensor* rowIdx,
                                                           const aclTensor* expertIdx, int64_t activeNum,
                                                           const aclTensor* expandedXOut,
                                                           const aclTensor* expandedRowIdxOut,
                                                           const aclTensor* expandedExpertIdxOut,
                                                           uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one(
      "aclnnMoeInitRouting",
      EMULATOR_GIVEN(x, rowIdx, expertIdx, activeNum, expandedXOut, expandedRowIdxOut, expandedExpertIdxOut),
      workspaceSize, executor, [&](Plan& plan) {
        const TensorArgument from = plan.input(x, "x");
        const TensorArgument numbers = plan.input(rowIdx, "rowIdx");
        const TensorArgument experts = plan.input(expertIdx, "expertIdx");
        const TensorArgument expanded = plan.output(expandedXOut, "expandedXOut");
        const TensorArgument row_index = plan.output(expandedRowIdxOut, "expandedRowIdxOut");
        const TensorArgument sorted = plan.output(expandedExpertIdxOut, "expandedExpertIdxOut");
        require(is_float(from.dtype) && expanded.dtype == from.dtype, "x and expandedXOut have the dtypes {} and {}",
                static_cast<int>(from.dtype), static_cast<int>(expanded.dtype));
        for (const TensorArgument* list : {&numbers, &experts, &row_index, &sorted}) {
          require(list->dtype == ACL_INT32, "a list has dtype {}, expected int32", static_cast<int>(list->dtype));
        }
        require(from.rank == 2 && experts.rank == 2 && experts.dims[0] == from.dims[0] &&
                    std::ranges::equal(numbers.shape(), experts.shape()),
                "x, rowIdx or expertIdx has the wrong shape");
        require(activeNum >= 0, "activeNum is {}", activeNum);
        const int64_t rows = std::min(from.dims[0], activeNum) * experts.dims[1];
        require(expanded.rank == 2 && expanded.dims[0] == rows && expanded.dims[1] == from.dims[1],
                "expandedXOut is not [{}, {}]", rows, from.dims[1]);
        for (const TensorArgument* list : {&row_index, &sorted}) {
          require(list->rank == 1 && list->elements() == experts.elements(), "a list has {} elements, expected {}",
                  list->elements(), experts.elements());
        }
        plan.launch(kInitRouting, {plan.contiguous(from), plan.contiguous(numbers), plan.contiguous(experts)},
                    {plan.staged(expanded), plan.staged(row_index), plan.staged(sorted)}, InitParameters{rows}, {},
                    experts.elements());
      });
}
EMULATOR_PHASE_TWO(aclnnMoeInitRouting)
