// aclnnMoeFinalizeRouting and V2: the experts' rows of each token, weighted and added.
#include <algorithm>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

struct FinalizeParameters {
  int64_t chosen = 1;
  int64_t rows = 0;         ///< of expandedX
  int32_t by_column = 0;    ///< expandedRowIdx holds the first choices of all tokens first
  int32_t may_be_gone = 0;  ///< -1 stands for a row that was dropped
};

// The tensors of the kernel; absent ones are undefined.
enum FinalizeTensor : size_t { kExpandedX, kRowIndex, kX1, kX2, kBias, kScales, kExperts, kOut };

/// Sums in float32 in the order of the choices, rounded once.
bool run_finalize(const KernelCall<FinalizeParameters>& call) {
  const FinalizeParameters& p = call.parameters();
  const HostTensor& out = call[kOut];
  const int64_t columns = out->columns();
  const int64_t tokens = out->rows();
  const std::vector<float> scales = read_all(call[kScales]);
  std::vector<float> sum(static_cast<size_t>(columns));
  std::vector<float> row(sum.size());
  std::vector<float> bias(sum.size());
  for (int64_t token = 0; token < tokens; ++token) {
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (const FinalizeTensor more : {kX1, kX2}) {
      if (!call[more].defined()) continue;
      read_row(call[more], token * columns, columns, row.data());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += row[i];
    }
    for (int64_t choice = 0; choice < p.chosen; ++choice) {
      const int64_t at = p.by_column != 0 ? choice * tokens + token : token * p.chosen + choice;
      const int32_t from = call[kRowIndex].data<int32_t>()[at];
      const bool gone = from == -1 && p.may_be_gone != 0;
      if (!gone && (from < 0 || from >= p.rows)) return false;
      if (gone && !call[kBias].defined()) continue;
      std::fill(row.begin(), row.end(), 0.0F);
      if (!gone) read_row(call[kExpandedX], from * columns, columns, row.data());
      if (call[kBias].defined()) {
        const int32_t expert = call[kExperts].data<int32_t>()[token * p.chosen + choice];
        if (expert < 0 || expert >= call[kBias]->rows()) return false;
        read_row(call[kBias], expert * columns, columns, bias.data());
        for (size_t i = 0; i < row.size(); ++i) row[i] += bias[i];
      }
      const float scale = scales.empty() ? 1.0F : scales[static_cast<size_t>(token * p.chosen + choice)];
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += scale * row[i];
    }
    write_row(out, token * columns, columns, sum.data());
  }
  return true;
}

constexpr Kernel kFinalize = make_kernel<FinalizeParameters, run_finalize>("MoeFinalizeRouting");
constexpr Kernel kFinalizeV2 = make_kernel<FinalizeParameters, run_finalize>("MoeFinalizeRoutingV2");

void build_finalize(Plan& plan, const Kernel& kernel, std::array<TensorArgument, kOut + 1> a, int64_t mode) {
  const TensorArgument& expanded = a[kExpandedX];
  const TensorArgument& out = a[kOut];
  require(mode >= 0 && mode <= 3, "dropPadMode is {}, expected 0 to 3", mode);
  require(is_float(expanded.dtype) && out.dtype == expanded.dtype && a[kRowIndex].dtype == ACL_INT32,
          "expandedX, expandedRowIdx or out has the wrong dtype");
  const bool padded = mode == 1 || mode == 3;
  require(out.rank == 2 && expanded.rank == (padded ? 3 : 2) && expanded.columns() == out.columns(),
          "expandedX has {} dimensions in mode {}", expanded.rank, mode);
  FinalizeParameters parameters{.rows = expanded.rows(), .by_column = mode < 2 ? 1 : 0, .may_be_gone = padded ? 1 : 0};
  if (a[kScales].defined()) {
    require(a[kScales].rank == 2 && a[kScales].dims[0] == out.dims[0], "scales has the wrong shape");
    const bool mixed = a[kScales].dtype == ACL_FLOAT && expanded.dtype == ACL_BF16;
    require(a[kScales].dtype == expanded.dtype || mixed, "scales has dtype {}", static_cast<int>(a[kScales].dtype));
    parameters.chosen = a[kScales].dims[1];
  }
  require(a[kRowIndex].elements() == out.dims[0] * parameters.chosen, "expandedRowIdx has {} elements, expected {}",
          a[kRowIndex].elements(), out.dims[0] * parameters.chosen);
  require(a[kX1].defined() || !a[kX2].defined(), "x2 without x1");
  for (const FinalizeTensor more : {kX1, kX2}) {
    require(!a[more].defined() || (a[more].dtype == out.dtype && std::ranges::equal(a[more].shape(), out.shape())),
            "x1 or x2 has another dtype or shape than out");
  }
  if (a[kBias].defined()) {
    require(a[kExperts].defined() && a[kExperts].dtype == ACL_INT32 &&
                a[kExperts].elements() == out.dims[0] * parameters.chosen,
            "bias without expertIdx of as many elements as expandedRowIdx");
    require(a[kBias].dtype == expanded.dtype && a[kBias].rank == 2 && a[kBias].columns() == out.columns(),
            "bias has the wrong dtype or shape");
  }
  for (size_t i = 0; i < kOut; ++i) a[i] = plan.contiguous(a[i]);
  a[kOut] = plan.staged(a[kOut]);
  const std::span<const TensorArgument> all(a);
  plan.launch_bytes(kernel, all.first(kOut), all.subspan(kOut), &parameters, sizeof(parameters), {}, a[kOut].dims[0]);
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

// Mode 0 of the second version, with all that is optional there but x2.
aclnnStatus aclnnMoeFinalizeRoutingGetWorkspaceSize(const aclTensor* expandedX, const aclTensor* x1,
                                                    const aclTensor* x2Optional, const aclTensor* bias,
                                                    const aclTensor* scales, const aclTensor* expandedRowIdx,
                                                    const aclTensor* expandedExpertIdx, const aclTensor* out,
                                                    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnMoeFinalizeRouting",
                   EMULATOR_GIVEN(expandedX, x1, x2Optional, bias, scales, expandedRowIdx, expandedExpertIdx, out),
                   workspaceSize, executor, [&](Plan& plan) {
                     std::array<TensorArgument, kOut + 1> a;
                     a[kExpandedX] = plan.input(expandedX, "expandedX");
                     a[kX1] = plan.input(x1, "x1");
                     a[kX2] = plan.optional_input(x2Optional);
                     a[kBias] = plan.input(bias, "bias");
                     a[kScales] = plan.input(scales, "scales");
                     a[kRowIndex] = plan.input(expandedRowIdx, "expandedRowIdx");
                     a[kExperts] = plan.input(expandedExpertIdx, "expandedExpertIdx");
                     a[kOut] = plan.output(out, "out");
                     require(a[kScales].dtype == a[kExpandedX].dtype, "scales has dtype {}, expandedX has {}",
                             static_cast<int>(a[kScales].dtype), static_cast<int>(a[kExpandedX].dtype));
                     build_finalize(plan, kFinalize, a, 0);
                   });
}

aclnnStatus aclnnMoeFinalizeRoutingV2GetWorkspaceSize(const aclTensor* expandedX, const aclTensor* expandedRowIdx,
                                                      const aclTensor* x1Optional, const aclTensor* x2Optional,
                                                      const aclTensor* biasOptional, const aclTensor* scalesOptional,
                                                      const aclTensor* expertIdxOptional, int64_t dropPadMode,
                                                      const aclTensor* out, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor) {
  return phase_one("aclnnMoeFinalizeRoutingV2",
                   EMULATOR_GIVEN(expandedX, expandedRowIdx, x1Optional, x2Optional, biasOptional, scalesOptional,
                                  expertIdxOptional, dropPadMode, out),
                   workspaceSize, executor, [&](Plan& plan) {
                     std::array<TensorArgument, kOut + 1> a;
                     a[kExpandedX] = plan.input(expandedX, "expandedX");
                     a[kRowIndex] = plan.input(expandedRowIdx, "expandedRowIdx");
                     a[kX1] = plan.optional_input(x1Optional);
                     a[kX2] = plan.optional_input(x2Optional);
                     a[kBias] = plan.optional_input(biasOptional);
                     a[kScales] = plan.optional_input(scalesOptional);
                     a[kExperts] = plan.optional_input(expertIdxOptional);
                     a[kOut] = plan.output(out, "out");
                     build_finalize(plan, kFinalizeV2, a, dropPadMode);
                   });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnMoeFinalizeRouting)
EMULATOR_PHASE_TWO(aclnnMoeFinalizeRoutingV2)
