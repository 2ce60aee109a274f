#include "emulator/operators/norm.h"

#include <algorithm>
#include <vector>

#include "emulator/operators/lanes.h"
#include "emulator/operators/quantize_rows.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

/// What follows the norm, for one of the two outputs.
class RowQuantizer {
 public:
  RowQuantizer(const KernelCall<NormParameters>& call, NormTensor scales, NormTensor zero_points, NormTensor y,
               NormTensor row_scale)
      : parameters_(call.parameters()),
        scales_(read_all(call[scales]), 1.0F),
        zero_points_(read_all(call[zero_points])),
        y_(call[y]),
        row_scale_(call[row_scale]),
        smoothed_(static_cast<size_t>(parameters_.columns)) {}

  void write(int64_t row, const float* values) {
    auto* to = y_.data<int8_t>() + row * parameters_.columns;
    if (parameters_.after == After::kQuantize) {
      quantize_row(values, parameters_.columns, scales_, zero_points_, parameters_.divide != 0, to);
      return;
    }
    for (int64_t i = 0; i < parameters_.columns; ++i) smoothed_[static_cast<size_t>(i)] = values[i] * scales_[i];
    row_scale_.data<float>()[row] = dynamic_quantize_row(smoothed_.data(), parameters_.columns, to);
  }

 private:
  const NormParameters& parameters_;
  ColumnValues scales_;
  ColumnValues zero_points_;
  HostTensor y_;
  HostTensor row_scale_;
  std::vector<float> smoothed_;
};

}  // namespace

bool run_norm(const KernelCall<NormParameters>& call) {
  const NormParameters& parameters = call.parameters();
  const int64_t columns = parameters.columns;
  const int64_t rows = call[kX1]->elements() / columns;
  const bool quantizes = parameters.after == After::kQuantize || parameters.after == After::kDynamicQuantize;
  const std::vector<float> gamma = read_all(call[kGamma]);
  const std::vector<float> beta = read_all(call[kBeta]);
  std::vector<float> x(static_cast<size_t>(columns));
  std::vector<float> other(static_cast<size_t>(columns));
  RowQuantizer first(call, kScales1, kZeroPoints1, kY1, kScale1);
  RowQuantizer second(call, kScales2, kZeroPoints2, kY2, kScale2);
  for (int64_t row = 0; row < rows; ++row) {
    read_row(call[kX1], row * columns, columns, x.data());
    if (call[kX2].defined()) {
      read_row(call[kX2], row * columns, columns, other.data());
      for (size_t i = 0; i < x.size(); ++i) x[i] += other[i];
      round_all(x.data(), columns, call[kX1]->dtype);
      if (call[kSum].defined()) write_row(call[kSum], row * columns, columns, x.data());
    }
    const float mean = dot(x.data(), x.data(), columns) / static_cast<float>(columns);
    const float rstd = 1.0F / std::sqrt(mean + static_cast<float>(parameters.epsilon));
    if (call[kRstd].defined()) call[kRstd].data<float>()[row] = rstd;
    for (size_t i = 0; i < x.size(); ++i) x[i] = x[i] * rstd * gamma[i];
    round_all(x.data(), columns, call[kX1]->dtype);
    if (call[kNormOut].defined()) write_row(call[kNormOut], row * columns, columns, x.data());
    if (!beta.empty()) {
      for (size_t i = 0; i < x.size(); ++i) x[i] += beta[i];
      round_all(x.data(), columns, call[kX1]->dtype);
    }
    if (!quantizes) {
      write_row(call[kY1], row * columns, columns, x.data());
      if (call[kY2].defined()) write_row(call[kY2], row * columns, columns, x.data());
      continue;
    }
    if (call[kY1].defined()) first.write(row, x.data());
    if (call[kY2].defined()) second.write(row, x.data());
  }
  return true;
}

void require_shape_of(const TensorArgument& tensor, const TensorArgument& like, const char* name) {
  require(!tensor.defined() || std::ranges::equal(tensor.shape(), like.shape()), "{} has the wrong shape", name);
}

void require_dtype(const TensorArgument& tensor, aclDataType dtype, const char* name) {
  require(!tensor.defined() || tensor.dtype == dtype, "{} has dtype {}, expected {}", name,
          static_cast<int>(tensor.dtype), static_cast<int>(dtype));
}

void require_16_bits(const TensorArgument& x) {
  require(x.dtype == ACL_FLOAT16 || x.dtype == ACL_BF16, "x1 has dtype {}, expected 16-bit floating point",
          static_cast<int>(x.dtype));
}

int64_t check_norm(const NormTensors& tensors, bool mixed_gamma) {
  const TensorArgument& x = tensors[kX1];
  const TensorArgument& gamma = tensors[kGamma];
  require(is_float(x.dtype), "x has dtype {}, expected floating point", static_cast<int>(x.dtype));
  const bool gamma_fits = gamma.dtype == x.dtype || (mixed_gamma && gamma.dtype == ACL_FLOAT);
  require(gamma_fits, "gamma has dtype {}, x has {}", static_cast<int>(gamma.dtype), static_cast<int>(x.dtype));
  bool trailing = gamma.rank >= 1 && gamma.rank <= x.rank;
  for (int32_t axis = 1; trailing && axis <= gamma.rank; ++axis) trailing = gamma.size_back(axis) == x.size_back(axis);
  require(trailing && gamma.elements() > 0, "gamma's shape is not the end of x's");
  require_dtype(tensors[kX2], x.dtype, "x2");
  require_shape_of(tensors[kX2], x, "x2");
  require_dtype(tensors[kBeta], gamma.dtype, "beta");
  require_shape_of(tensors[kBeta], gamma, "beta");
  for (const NormTensor sum : {kSum, kNormOut}) {
    require_dtype(tensors[sum], x.dtype, "xOut or rmsNormOut");
    require_shape_of(tensors[sum], x, "xOut or rmsNormOut");
  }
  require_dtype(tensors[kRstd], ACL_FLOAT, "rstdOut");
  const int64_t rows = x.elements() / gamma.elements();
  require(!tensors[kRstd].defined() || tensors[kRstd].elements() == rows, "rstdOut has the wrong shape");
  return gamma.elements();
}

void read_sum_inputs(Plan& plan, const aclTensor* x1, const aclTensor* x2, const aclTensor* gamma,
                     NormTensors& tensors) {
  tensors[kX1] = plan.input(x1, "x1");
  tensors[kX2] = plan.input(x2, "x2");
  tensors[kGamma] = plan.input(gamma, "gamma");
}

void add_norm(Plan& plan, const Kernel& kernel, NormTensors tensors, const NormParameters& parameters) {
  for (size_t i = 0; i < kY1; ++i) tensors[i] = plan.contiguous(tensors[i]);
  for (size_t i = kY1; i < kNormTensors; ++i) tensors[i] = plan.staged(tensors[i]);
  const std::span<const TensorArgument> all(tensors);
  plan.launch_bytes(kernel, all.first(kY1), all.subspan(kY1), &parameters, sizeof(parameters), {},
                    tensors[kX1].elements() / parameters.columns);
}

namespace {

constexpr Kernel kRmsNorm = make_kernel<NormParameters, run_norm>("RmsNorm");
constexpr Kernel kAddRmsNorm = make_kernel<NormParameters, run_norm>("AddRmsNorm");
constexpr Kernel kAddRmsNormCast = make_kernel<NormParameters, run_norm>("AddRmsNormCast");

void build_rms_norm(Plan& plan, const aclTensor* x, const aclTensor* gamma, double epsilon, const aclTensor* y,
                    const aclTensor* rstd) {
  NormTensors tensors;
  tensors[kX1] = plan.input(x, "x");
  tensors[kGamma] = plan.input(gamma, "gamma");
  tensors[kY1] = plan.output(y, "yOut");
  tensors[kRstd] = plan.output(rstd, "rstdOut");
  const int64_t columns = check_norm(tensors, true);
  require_dtype(tensors[kY1], tensors[kX1].dtype, "yOut");
  require_shape_of(tensors[kY1], tensors[kX1], "yOut");
  add_norm(plan, kRmsNorm, tensors, {.epsilon = epsilon, .columns = columns});
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnRmsNormGetWorkspaceSize(const aclTensor* x, const aclTensor* gamma, double epsilon,
                                         const aclTensor* yOut, const aclTensor* rstdOut, uint64_t* workspaceSize,
                                         aclOpExecutor** executor) {
  return phase_one("aclnnRmsNorm", EMULATOR_GIVEN(x, gamma, epsilon, yOut, rstdOut), workspaceSize, executor,
                   [&](Plan& plan) { build_rms_norm(plan, x, gamma, epsilon, yOut, rstdOut); });
}

aclnnStatus aclnnAddRmsNormGetWorkspaceSize(const aclTensor* x1, const aclTensor* x2, const aclTensor* gamma,
                                            double epsilon, const aclTensor* yOut, const aclTensor* rstdOut,
                                            const aclTensor* xOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnAddRmsNorm", EMULATOR_GIVEN(x1, x2, gamma, epsilon, yOut, rstdOut, xOut), workspaceSize,
                   executor, [&](Plan& plan) {
                     NormTensors tensors;
                     read_sum_inputs(plan, x1, x2, gamma, tensors);
                     tensors[kY1] = plan.output(yOut, "yOut");
                     tensors[kRstd] = plan.optional_output(rstdOut);
                     tensors[kSum] = plan.optional_output(xOut);
                     if (rstdOut != nullptr) require_pointer(xOut, "xOut");
                     const int64_t columns = check_norm(tensors, false);
                     require_dtype(tensors[kY1], tensors[kX1].dtype, "yOut");
                     require_shape_of(tensors[kY1], tensors[kX1], "yOut");
                     add_norm(plan, kAddRmsNorm, tensors, {.epsilon = epsilon, .columns = columns});
                   });
}

aclnnStatus aclnnAddRmsNormCastGetWorkspaceSize(const aclTensor* x1, const aclTensor* x2, const aclTensor* gamma,
                                                double epsilon, const aclTensor* y1Out, const aclTensor* y2Out,
                                                const aclTensor* rstdOut, const aclTensor* xOut,
                                                uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnAddRmsNormCast", EMULATOR_GIVEN(x1, x2, gamma, epsilon, y1Out, y2Out, rstdOut, xOut),
                   workspaceSize, executor, [&](Plan& plan) {
                     NormTensors tensors;
                     read_sum_inputs(plan, x1, x2, gamma, tensors);
                     tensors[kY1] = plan.output(y1Out, "y1Out");
                     tensors[kY2] = plan.output(y2Out, "y2Out");
                     tensors[kRstd] = plan.output(rstdOut, "rstdOut");
                     tensors[kSum] = plan.output(xOut, "xOut");
                     const int64_t columns = check_norm(tensors, false);
                     require_16_bits(tensors[kX1]);
                     require_dtype(tensors[kY1], ACL_FLOAT, "y1Out");
                     require_dtype(tensors[kY2], tensors[kX1].dtype, "y2Out");
                     for (const NormTensor y : {kY1, kY2}) require_shape_of(tensors[y], tensors[kX1], "y1Out or y2Out");
                     add_norm(plan, kAddRmsNormCast, tensors,
                              {.epsilon = epsilon, .columns = columns, .after = After::kCast});
                   });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnRmsNorm)
EMULATOR_PHASE_TWO(aclnnAddRmsNorm)
EMULATOR_PHASE_TWO(aclnnAddRmsNormCast)
