// Root-mean-square norms, by themselves and fused with the addition before and the quantisation behind. Fused ones
// round where separate operators would store.
#pragma once

#include <array>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"

namespace reprise::emulator {

enum class After : int32_t { kNothing, kCast, kQuantize, kDynamicQuantize };

struct NormParameters {
  double epsilon = 0;
  int64_t columns = 1;  ///< elements that are normed together: of gamma
  After after = After::kNothing;
  int32_t divide = 0;
};

// The tensors of all norm kernels; absent ones are undefined.
enum NormTensor : size_t {
  kX1,
  kX2,
  kGamma,
  kBeta,
  kScales1,
  kScales2,
  kZeroPoints1,
  kZeroPoints2,
  kY1,
  kY2,
  kRstd,
  kSum,
  kNormOut,
  kScale1,
  kScale2,
  kNormTensors
};

using NormTensors = std::array<TensorArgument, kNormTensors>;

/// The kernel of all norms.
bool run_norm(const KernelCall<NormParameters>& call);

void require_shape_of(const TensorArgument& tensor, const TensorArgument& like, const char* name);
void require_dtype(const TensorArgument& tensor, aclDataType dtype, const char* name);
void require_16_bits(const TensorArgument& x);

/// Checks what all norms share and gives the columns.
int64_t check_norm(const NormTensors& tensors, bool mixed_gamma);

void read_sum_inputs(Plan& plan, const aclTensor* x1, const aclTensor* x2, const aclTensor* gamma,
                     NormTensors& tensors);

/// Makes every tensor contiguous and launches.
void add_norm(Plan& plan, const Kernel& kernel, NormTensors tensors, const NormParameters& parameters);

}  // namespace reprise::emulator
