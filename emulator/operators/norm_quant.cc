// Norms with a quantisation behind.
#include <algorithm>

#include "emulator/operators/norm.h"

namespace reprise::emulator {
namespace {

constexpr Kernel kRmsNormQuant = make_kernel<NormParameters, run_norm>("RmsNormQuant");
constexpr Kernel kAddRmsNormQuant = make_kernel<NormParameters, run_norm>("AddRmsNormQuant");
constexpr Kernel kAddRmsNormQuantV2 = make_kernel<NormParameters, run_norm>("AddRmsNormQuantV2");
constexpr Kernel kAddRmsNormDynamicQuant = make_kernel<NormParameters, run_norm>("AddRmsNormDynamicQuant");

void check_results(const NormTensors& tensors) {
  for (const NormTensor y : {kY1, kY2}) {
    require_dtype(tensors[y], ACL_INT8, "y1Out or y2Out");
    require_shape_of(tensors[y], tensors[kX1], "y1Out or y2Out");
  }
}

/// y1 int8, and y2 where there are scales for it; otherwise whatever y2 is, it is left alone.
void check_quantized(NormTensors& tensors, int64_t columns) {
  require_16_bits(tensors[kX1]);
  for (const NormTensor scales : {kScales1, kScales2, kZeroPoints1, kZeroPoints2}) {
    const int64_t count = tensors[scales].defined() ? tensors[scales].elements() : columns;
    require(count == columns, "scales or zero points have {} elements, expected {} as gamma", count, columns);
  }
  require(tensors[kScales2].defined() || !tensors[kZeroPoints2].defined(), "zeroPoints2 without scales2");
  if (!tensors[kScales2].defined()) tensors[kY2] = tensors[kScale2] = {};
  check_results(tensors);
}

/// The inputs of both versions of AddRmsNormQuant, and the first two outputs.
void read_quantized(Plan& plan, std::initializer_list<const aclTensor*> given, NormTensors& tensors) {
  const aclTensor* const* t = given.begin();  // x1, x2, gamma, scales1, scales2, zeroPoints1, zeroPoints2
  read_sum_inputs(plan, t[0], t[1], t[2], tensors);
  tensors[kScales1] = plan.input(t[3], "scales1");
  tensors[kScales2] = plan.optional_input(t[4]);
  tensors[kZeroPoints1] = plan.optional_input(t[5]);
  tensors[kZeroPoints2] = plan.optional_input(t[6]);
}

/// [1, columns] as [columns].
void drop_leading_one(TensorArgument& vector) {
  if (vector.rank != 2 || vector.dims[0] != 1) return;
  vector.dims[0] = vector.dims[1];
  vector.strides[0] = vector.strides[1];
  vector.rank = 1;
}

/// One scale and one zero point for all: a kernel of its own, which gives either the sum or the norm.
bool has_one_scale(const NormTensors& tensors) {
  TensorArgument gamma = tensors[kGamma];
  drop_leading_one(gamma);
  const auto is_one = [](const TensorArgument& tensor) { return tensor.rank == 1 && tensor.dims[0] == 1; };
  return tensors[kZeroPoints1].defined() && is_one(tensors[kZeroPoints1]) && is_one(tensors[kScales1]) &&
         tensors[kX1].rank >= 1 && gamma.rank == 1 && gamma.dims[0] == tensors[kX1].columns() &&
         (gamma.dims[0] != 1 || tensors[kBeta].defined() || tensors[kNormOut].defined());
}

void build_quant_v2(Plan& plan, NormTensors tensors, double epsilon, bool divide) {
  const bool half = tensors[kX1].dtype == ACL_FLOAT16;
  for (const NormTensor scale : {kScales1, kScales2}) {
    if (half && tensors[scale].dtype == ACL_FLOAT16) continue;
    require_dtype(tensors[scale], half ? ACL_FLOAT : ACL_BF16, "scales");
  }
  for (const NormTensor zero : {kZeroPoints1, kZeroPoints2}) {
    if (half && tensors[zero].dtype == ACL_INT8) continue;
    require_dtype(tensors[zero], half ? ACL_INT32 : ACL_BF16, "zeroPoints");
  }
  const bool one = has_one_scale(tensors);
  if (one) {
    const bool sum = tensors[kSum].defined();
    if (tensors[kBeta].defined() != sum || tensors[kNormOut].defined() == sum) {
      throw OperatorError(ACLNN_ERR_PARAM_NULLPTR, "with one scale: beta and xOut, or rmsNormOut alone");
    }
    drop_leading_one(tensors[kGamma]);
    drop_leading_one(tensors[kBeta]);
    require(!tensors[kScales2].defined() && !tensors[kZeroPoints2].defined() && divide,
            "with one scale there is no second one, and divMode is true");
  } else if (!tensors[kSum].defined()) {
    throw OperatorError(ACLNN_ERR_PARAM_NULLPTR, "xOut is a null pointer");
  }
  require(one || !tensors[kNormOut].defined(), "rmsNormOut with scales for each column");
  const int64_t columns = check_norm(tensors, false);
  if (one) {
    require_16_bits(tensors[kX1]);
    tensors[kY2] = {};
    check_results(tensors);
  } else {
    check_quantized(tensors, columns);
  }
  add_norm(plan, one ? kAddRmsNormQuantV2 : kAddRmsNormQuant, tensors,
           {.epsilon = epsilon, .columns = columns, .after = After::kQuantize, .divide = divide ? 1 : 0});
}

/// With a mask it says which results are wanted; without one, those that have scales, and the first.
void choose_results(const aclBoolArray* mask, NormTensors& tensors) {
  const bool scales1 = tensors[kScales1].defined();
  const bool scales2 = tensors[kScales2].defined();
  require_live(mask, "outputMask");
  if (mask == nullptr) {
    require(scales1 || !scales2, "smoothScale2 without smoothScale1");
    if (!scales2) tensors[kY2] = tensors[kScale2] = {};
    return;
  }
  require(mask->values.size() == 2, "outputMask has {} elements, expected 2", mask->values.size());
  const bool first = mask->values[0] != 0;
  const bool second = mask->values[1] != 0;
  require((first || second) && (first || !scales1) && (second || !scales2),
          "outputMask wants neither result, or not one that has a smoothScale");
  if (!first) tensors[kY1] = tensors[kScale1] = {};
  if (!second) tensors[kY2] = tensors[kScale2] = {};
}

/// Both versions, behind the choice of results.
void build_dynamic(Plan& plan, const NormTensors& tensors, double epsilon) {
  const int64_t columns = check_norm(tensors, false);
  require_16_bits(tensors[kX1]);
  check_results(tensors);
  for (const NormTensor scale : {kScales1, kScales2}) {
    require_dtype(tensors[scale], tensors[kX1].dtype, "smoothScale");
    require(!tensors[scale].defined() || tensors[scale].elements() == columns,
            "smoothScale has {} elements, expected {} as gamma", tensors[scale].elements(), columns);
  }
  require(tensors[kGamma].rank == 1, "gamma has {} dimensions, expected 1", tensors[kGamma].rank);
  const int64_t rows = tensors[kX1].elements() / columns;
  for (const NormTensor scale : {kScale1, kScale2}) {
    require_dtype(tensors[scale], ACL_FLOAT, "scale1Out or scale2Out");
    require(!tensors[scale].defined() || tensors[scale].elements() == rows,
            "scale1Out or scale2Out has the wrong shape");
  }
  add_norm(plan, kAddRmsNormDynamicQuant, tensors,
           {.epsilon = epsilon, .columns = columns, .after = After::kDynamicQuantize});
}

void build_rms_norm_quant(Plan& plan, NormTensors tensors, double epsilon) {
  drop_leading_one(tensors[kGamma]);
  drop_leading_one(tensors[kBeta]);
  require(tensors[kGamma].rank == 1, "gamma has {} dimensions, expected 1", tensors[kGamma].rank);
  const int64_t columns = check_norm(tensors, false);
  require_16_bits(tensors[kX1]);
  require_dtype(tensors[kScales1], tensors[kX1].dtype, "scale");
  require_dtype(tensors[kZeroPoints1], ACL_INT8, "offset");
  for (const NormTensor one : {kScales1, kZeroPoints1}) {
    require(tensors[one].rank == 1 && tensors[one].dims[0] == 1, "scale or offset has {} elements, expected 1",
            tensors[one].elements());
  }
  check_results(tensors);
  add_norm(plan, kRmsNormQuant, tensors, {.epsilon = epsilon, .columns = columns, .after = After::kQuantize});
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnAddRmsNormQuantGetWorkspaceSize(const aclTensor* x1, const aclTensor* x2, const aclTensor* gamma,
                                                 const aclTensor* scales1, const aclTensor* scales2Optional,
                                                 const aclTensor* zeroPoints1Optional,
                                                 const aclTensor* zeroPoints2Optional, int64_t axis, double epsilon,
                                                 bool divMode, const aclTensor* y1Out, const aclTensor* y2Out,
                                                 const aclTensor* xOut, uint64_t* workspaceSize,
                                                 aclOpExecutor** executor) {
  return phase_one(
      "aclnnAddRmsNormQuant",
      EMULATOR_GIVEN(x1, x2, gamma, scales1, scales2Optional, zeroPoints1Optional, zeroPoints2Optional, axis, epsilon,
                     divMode, y1Out, y2Out, xOut),
      workspaceSize, executor, [&](Plan& plan) {
        NormTensors tensors;
        read_quantized(plan, {x1, x2, gamma, scales1, scales2Optional, zeroPoints1Optional, zeroPoints2Optional},
                       tensors);
        tensors[kY1] = plan.output(y1Out, "y1Out");
        tensors[kY2] = plan.output(y2Out, "y2Out");
        tensors[kSum] = plan.output(xOut, "xOut");
        require(axis == -1 && divMode, "axis is {} and divMode {}, expected -1 and true", axis, divMode);
        const int64_t columns = check_norm(tensors, false);
        check_quantized(tensors, columns);
        // Two rows of the device's table.
        const bool half = tensors[kX1].dtype == ACL_FLOAT16;
        for (const NormTensor scale : {kScales1, kScales2})
          require_dtype(tensors[scale], half ? ACL_FLOAT : ACL_BF16, "scales");
        for (const NormTensor zero : {kZeroPoints1, kZeroPoints2})
          require_dtype(tensors[zero], half ? ACL_INT32 : ACL_BF16, "zeroPoints");
        add_norm(plan, kAddRmsNormQuant, tensors,
                 {.epsilon = epsilon, .columns = columns, .after = After::kQuantize, .divide = divMode ? 1 : 0});
      });
}

aclnnStatus aclnnAddRmsNormDynamicQuantGetWorkspaceSize(const aclTensor* x1, const aclTensor* x2,
                                                        const aclTensor* gamma, const aclTensor* smoothScale1Optional,
                                                        const aclTensor* smoothScale2Optional, double epsilon,
                                                        const aclTensor* y1Out, const aclTensor* y2Out,
                                                        const aclTensor* xOut, const aclTensor* scale1Out,
                                                        const aclTensor* scale2Out, uint64_t* workspaceSize,
                                                        aclOpExecutor** executor) {
  return phase_one("aclnnAddRmsNormDynamicQuant",
                   EMULATOR_GIVEN(x1, x2, gamma, smoothScale1Optional, smoothScale2Optional, epsilon, y1Out, y2Out,
                                  xOut, scale1Out, scale2Out),
                   workspaceSize, executor, [&](Plan& plan) {
                     NormTensors tensors;
                     read_sum_inputs(plan, x1, x2, gamma, tensors);
                     tensors[kScales1] = plan.optional_input(smoothScale1Optional);
                     tensors[kScales2] = plan.optional_input(smoothScale2Optional);
                     tensors[kY1] = plan.output(y1Out, "y1Out");
                     tensors[kY2] = plan.output(y2Out, "y2Out");
                     tensors[kSum] = plan.output(xOut, "xOut");
                     tensors[kScale1] = plan.output(scale1Out, "scale1Out");
                     tensors[kScale2] = plan.output(scale2Out, "scale2Out");
                     choose_results(nullptr, tensors);
                     build_dynamic(plan, tensors, epsilon);
                   });
}

aclnnStatus aclnnRmsNormQuantGetWorkspaceSize(const aclTensor* x, const aclTensor* gamma, const aclTensor* beta,
                                              const aclTensor* scale, const aclTensor* offset, double epsilon,
                                              aclTensor* y, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnRmsNormQuant", EMULATOR_GIVEN(x, gamma, beta, scale, offset, epsilon, y), workspaceSize,
                   executor, [&](Plan& plan) {
                     NormTensors tensors;
                     tensors[kX1] = plan.input(x, "x");
                     tensors[kGamma] = plan.input(gamma, "gamma");
                     tensors[kBeta] = plan.input(beta, "beta");
                     tensors[kScales1] = plan.input(scale, "scale");
                     tensors[kZeroPoints1] = plan.input(offset, "offset");
                     tensors[kY1] = plan.output(y, "y");
                     build_rms_norm_quant(plan, tensors, epsilon);
                   });
}

aclnnStatus aclnnAddRmsNormQuantV2GetWorkspaceSize(const aclTensor* x1, const aclTensor* x2, const aclTensor* gamma,
                                                   const aclTensor* scales1, const aclTensor* scales2Optional,
                                                   const aclTensor* zeroPoints1Optional,
                                                   const aclTensor* zeroPoints2Optional, const aclTensor* betaOptional,
                                                   int64_t axis, double epsilon, bool divMode, aclTensor* y1Out,
                                                   aclTensor* y2Out, aclTensor* xOut, aclTensor* rmsNormOut,
                                                   uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnAddRmsNormQuantV2",
                   EMULATOR_GIVEN(x1, x2, gamma, scales1, scales2Optional, zeroPoints1Optional, zeroPoints2Optional,
                                  betaOptional, axis, epsilon, divMode, y1Out, y2Out, xOut, rmsNormOut),
                   workspaceSize, executor, [&](Plan& plan) {
                     NormTensors tensors;
                     read_quantized(plan,
                                    {x1, x2, gamma, scales1, scales2Optional, zeroPoints1Optional, zeroPoints2Optional},
                                    tensors);
                     tensors[kBeta] = plan.optional_input(betaOptional);
                     tensors[kY1] = plan.output(y1Out, "y1Out");
                     tensors[kY2] = plan.output(y2Out, "y2Out");
                     tensors[kSum] = plan.optional_output(xOut);
                     tensors[kNormOut] = plan.optional_output(rmsNormOut);
                     require(axis == -1, "axis is {}, expected -1", axis);
                     build_quant_v2(plan, tensors, epsilon, divMode);
                   });
}

aclnnStatus aclnnAddRmsNormDynamicQuantV2GetWorkspaceSize(
    const aclTensor* x1, const aclTensor* x2, const aclTensor* gamma, const aclTensor* smoothScale1Optional,
    const aclTensor* smoothScale2Optional, const aclTensor* betaOptional, double epsilon,
    const aclBoolArray* outputMask, aclTensor* y1Out, aclTensor* y2Out, aclTensor* xOut, aclTensor* scale1Out,
    aclTensor* scale2Out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnAddRmsNormDynamicQuantV2",
                   EMULATOR_GIVEN(x1, x2, gamma, smoothScale1Optional, smoothScale2Optional, betaOptional, epsilon,
                                  outputMask, y1Out, y2Out, xOut, scale1Out, scale2Out),
                   workspaceSize, executor, [&](Plan& plan) {
                     NormTensors tensors;
                     read_sum_inputs(plan, x1, x2, gamma, tensors);
                     tensors[kScales1] = plan.optional_input(smoothScale1Optional);
                     tensors[kScales2] = plan.optional_input(smoothScale2Optional);
                     tensors[kBeta] = plan.optional_input(betaOptional);
                     tensors[kY1] = plan.output(y1Out, "y1Out");
                     tensors[kY2] = plan.output(y2Out, "y2Out");
                     tensors[kSum] = plan.output(xOut, "xOut");
                     tensors[kScale1] = plan.output(scale1Out, "scale1Out");
                     tensors[kScale2] = plan.output(scale2Out, "scale2Out");
                     choose_results(outputMask, tensors);
                     build_dynamic(plan, tensors, epsilon);
                   });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnRmsNormQuant)
EMULATOR_PHASE_TWO(aclnnAddRmsNormQuant)
EMULATOR_PHASE_TWO(aclnnAddRmsNormQuantV2)
EMULATOR_PHASE_TWO(aclnnAddRmsNormDynamicQuant)
EMULATOR_PHASE_TWO(aclnnAddRmsNormDynamicQuantV2)
