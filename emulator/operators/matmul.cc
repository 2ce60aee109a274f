// Products of floating-point matrices. Sums are in float32, in one order over the inner axis, and rounded once.
#include <algorithm>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/lanes.h"
#include "emulator/operators/matrix.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

// cubeMathType of the interface.
constexpr int8_t kKeepDtype = 0;
constexpr int8_t kAllowDownPrecision = 1;
constexpr int8_t kUseFloat16 = 2;
constexpr int8_t kUseHf32 = 3;
constexpr int8_t kUseFloat32Add = 4;

struct ProductParameters {
  int64_t batches = 1;
  int64_t rows = 1;  ///< of each batch
  int32_t hf32 = 0;  ///< inputs are cut to the 11 significant bits of HFLOAT32
  int32_t float16 = 0;
};

float to_hf32(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000U) == 0x7f800000U) return value;
  constexpr uint32_t kDropped = 12;
  const uint32_t half = (1U << (kDropped - 1)) - 1 + ((bits >> kDropped) & 1U);
  return std::bit_cast<float>((bits + half) & ~((1U << kDropped) - 1));
}

void cut(const ProductParameters& parameters, float* values, int64_t count) {
  if (parameters.hf32 != 0) {
    for (int64_t i = 0; i < count; ++i) values[i] = to_hf32(values[i]);
  } else if (parameters.float16 != 0) {
    round_all(values, count, ACL_FLOAT16);
  }
}

/// a [batches, rows, k] is contiguous, out [batches, rows, n] too.
bool run_product(const KernelCall<ProductParameters>& call) {
  const ProductParameters& parameters = call.parameters();
  const HostTensor& a = call[0];
  const HostTensor& matrix = call[1];
  const HostTensor& out = call[2];
  const int64_t inner = matrix->size_back(2);
  const int64_t outputs = matrix->size_back(1);
  const int64_t rows = parameters.rows;
  std::vector<float> left(static_cast<size_t>(rows * inner));
  std::vector<float> result(static_cast<size_t>(rows * outputs));
  for (int64_t batch = 0; batch < parameters.batches; ++batch) {
    if (inner > 0) read_row(a, batch * rows * inner, rows * inner, left.data());
    cut(parameters, left.data(), rows * inner);
    for_each_column<float>(matrix, batch, [&](int64_t n, float* column) {
      cut(parameters, column, inner);
      for (int64_t m = 0; m < rows; ++m) {
        result[static_cast<size_t>(m * outputs + n)] = dot(left.data() + m * inner, column, inner);
      }
    });
    write_row(out, batch * rows * outputs, rows * outputs, result.data());
  }
  return true;
}

KernelCost product_cost(const ArgumentReader& arguments) {
  KernelCost cost = plain_cost(arguments);
  const auto tensors = arguments.tensors();
  cost.multiply_adds = static_cast<uint64_t>(tensors[2].elements()) * static_cast<uint64_t>(tensors[1].size_back(2));
  return cost;
}

constexpr Kernel kMatmul = make_kernel<ProductParameters, run_product, product_cost>("MatMulV3", KernelType::kAiCore);
constexpr Kernel kBatchMatmul =
    make_kernel<ProductParameters, run_product, product_cost>("BatchMatMulV3", KernelType::kAiCore);

struct AddmmParameters {
  double beta = 1;
  double alpha = 1;
};

/// out = beta * self + alpha * product
bool run_addmm(const KernelCall<AddmmParameters>& call) {
  const HostTensor& out = call[2];
  const TensorArgument seen = broadcast_to(*call[0], *out);
  const RowOffsets self_rows(seen);
  const int64_t step = seen.stride_back(1);
  const auto beta = static_cast<float>(call.parameters().beta);
  const auto alpha = static_cast<float>(call.parameters().alpha);
  const std::vector<float> self = read_all(call[0]);
  std::vector<float> row(static_cast<size_t>(out->columns()));
  for (int64_t r = 0; r < out->rows(); ++r) {
    read_row(call[1], r * out->columns(), out->columns(), row.data());
    for (int64_t i = 0; i < out->columns(); ++i) {
      float& value = row[static_cast<size_t>(i)];
      value *= alpha;
      if (beta != 0.0F) value += beta * self[static_cast<size_t>(self_rows[r] + i * step)];
    }
    write_row(out, r * out->columns(), out->columns(), row.data());
  }
  return true;
}

constexpr Kernel kAddmm = make_kernel<AddmmParameters, run_addmm>("Axpy");

ProductParameters math_of(int8_t cube_math_type, aclDataType dtype) {
  require(cube_math_type >= kKeepDtype && cube_math_type <= kUseFloat32Add, "cubeMathType is {}", cube_math_type);
  require(cube_math_type != kUseFloat16 || dtype != ACL_BF16, "cubeMathType 2 with bfloat16");
  require(cube_math_type != kUseHf32 || dtype == ACL_FLOAT, "cubeMathType 3 with other than float32");
  ProductParameters parameters;
  const bool wide = dtype == ACL_FLOAT;
  parameters.hf32 = wide && (cube_math_type == kAllowDownPrecision || cube_math_type == kUseHf32) ? 1 : 0;
  parameters.float16 = wide && cube_math_type == kUseFloat16 ? 1 : 0;
  return parameters;
}

/// What both factors are computed in: 16-bit formats do not meet each other, nor bfloat16 float32.
aclDataType product_dtype(const TensorArgument& a, const TensorArgument& b) {
  require(is_float(a.dtype) && is_float(b.dtype), "the dtypes are {} and {}, expected floating point",
          static_cast<int>(a.dtype), static_cast<int>(b.dtype));
  if (a.dtype == b.dtype) return a.dtype;
  require(a.dtype != ACL_BF16 && b.dtype != ACL_BF16, "bfloat16 and another dtype");
  return ACL_FLOAT;
}

int64_t product_work(int64_t rows, int64_t outputs) { return (rows + 127) / 128 * ((outputs + 255) / 256); }

/// a of any rank times one matrix, or [batches, m, k] times [batches, k, n].
void add_product(Plan& plan, const TensorArgument& a, const TensorArgument& b, const TensorArgument& out,
                 int8_t cube_math_type, aclDataType result) {
  require(a.rank >= 2 && b.rank >= 2 && out.rank == a.rank && (b.rank == 2 || b.rank == a.rank),
          "the ranks are {}, {} and {}", a.rank, b.rank, out.rank);
  require(a.size_back(1) == b.size_back(2), "self has {} columns, mat2 {} rows", a.size_back(1), b.size_back(2));
  bool fits = out.size_back(1) == b.size_back(1);
  for (int32_t axis = 2; fits && axis <= a.rank; ++axis) {
    const bool outer = axis > 2 && b.rank > 2;
    fits = out.size_back(axis) == a.size_back(axis) && (!outer || b.size_back(axis) == a.size_back(axis));
  }
  require(fits && b.rank <= 3, "the shapes do not go together");
  const aclDataType dtype = product_dtype(a, b);
  ProductParameters parameters = math_of(cube_math_type, dtype);
  parameters.batches = b.rank == 2 ? 1 : b.dims[0];
  parameters.rows = out.rows() / std::max<int64_t>(parameters.batches, 1);
  const TensorArgument left = plan.contiguous(a, dtype);
  const TensorArgument right = b.dtype == dtype ? prepared_matrix(plan, b, "mat2") : plan.contiguous(b, dtype);
  plan.launch(b.rank == 2 ? kMatmul : kBatchMatmul, {left, right}, {plan.staged(out, result)}, parameters, {},
              parameters.batches * product_work(parameters.rows, b.size_back(1)));
}

/// `format`: of mat2; undefined: any.
void build_matmul(Plan& plan, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cube_math_type,
                  aclFormat format) {
  const TensorArgument a = plan.input(self, "self");
  const TensorArgument b = plan.input(mat2, "mat2");
  const TensorArgument y = plan.output(out, "out");
  require(b.format == format || format == ACL_FORMAT_UNDEFINED, "mat2 has format {}, expected {}",
          static_cast<int>(b.format), static_cast<int>(format));
  require(!b.is_nz() || a.dtype != ACL_FLOAT, "float32 with a matrix in FRACTAL_NZ");
  require(is_float(y.dtype), "out has dtype {}, expected floating point", static_cast<int>(y.dtype));
  // A product of 16-bit floats is rounded to them, whatever out is.
  add_product(plan, a, b, y, cube_math_type, product_dtype(a, b));
}

void build_baddbmm(Plan& plan, const aclTensor* self, const aclTensor* batch1, const aclTensor* batch2,
                   const aclScalar* beta, const aclScalar* alpha, aclTensor* out, int8_t cube_math_type) {
  const TensorArgument c = plan.input(self, "self");
  const TensorArgument a = plan.input(batch1, "batch1");
  const TensorArgument b = plan.input(batch2, "batch2");
  require_pointer(beta, "beta");
  require_pointer(alpha, "alpha");
  const TensorArgument y = plan.output(out, "out");
  require(a.rank == 3 && b.rank == 3 && y.rank == 3, "the ranks are {}, {} and {}, expected 3", a.rank, b.rank, y.rank);
  require(is_float(c.dtype) && is_float(y.dtype) && !b.is_nz(), "an unsupported dtype or format");
  bool fits = c.rank <= y.rank;
  for (int32_t axis = 1; fits && axis <= c.rank; ++axis) {
    fits = c.size_back(axis) == 1 || c.size_back(axis) == y.size_back(axis);
  }
  require(fits, "self cannot be broadcast to out");
  const aclDataType dtype = product_dtype(a, b);
  const TensorArgument product = plan.scratch(y.shape(), cube_math_type == kKeepDtype ? ACL_FLOAT : dtype);
  add_product(plan, a, b, product, cube_math_type, product.dtype);
  plan.launch(kAddmm, {plan.contiguous(c), product}, {plan.staged(y, ACL_FLOAT)},
              AddmmParameters{beta->as_double(), alpha->as_double()});
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnMatmulGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out,
                                        int8_t cubeMathType, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnMatmul", EMULATOR_GIVEN(self, mat2, out, cubeMathType), workspaceSize, executor,
                   [&](Plan& plan) { build_matmul(plan, self, mat2, out, cubeMathType, ACL_FORMAT_ND); });
}

aclnnStatus aclnnMmGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType,
                                    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnMm", EMULATOR_GIVEN(self, mat2, out, cubeMathType), workspaceSize, executor, [&](Plan& plan) {
    build_matmul(plan, self, mat2, out, cubeMathType, ACL_FORMAT_UNDEFINED);
    require(self->dims.size() == 2 && mat2->dims.size() == 2, "self and mat2 have {} and {} dimensions, expected 2",
            self->dims.size(), mat2->dims.size());
  });
}

aclnnStatus aclnnMatmulWeightNzGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out,
                                                int8_t cubeMathType, uint64_t* workspaceSize,
                                                aclOpExecutor** executor) {
  return phase_one("aclnnMatmulWeightNz", EMULATOR_GIVEN(self, mat2, out, cubeMathType), workspaceSize, executor,
                   [&](Plan& plan) { build_matmul(plan, self, mat2, out, cubeMathType, ACL_FORMAT_FRACTAL_NZ); });
}

aclnnStatus aclnnBatchMatMulGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out,
                                             int8_t cubeMathType, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnBatchMatMul", EMULATOR_GIVEN(self, mat2, out, cubeMathType), workspaceSize, executor,
                   [&](Plan& plan) {
                     require(self == nullptr || self->dims.size() == 3, "self is not of 3 dimensions");
                     require(mat2 == nullptr || mat2->dims.size() == 3, "mat2 is not of 3 dimensions");
                     build_matmul(plan, self, mat2, out, cubeMathType, ACL_FORMAT_ND);
                   });
}

aclnnStatus aclnnBaddbmmGetWorkspaceSize(const aclTensor* self, const aclTensor* batch1, const aclTensor* batch2,
                                         const aclScalar* beta, const aclScalar* alpha, aclTensor* out,
                                         int8_t cubeMathType, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnBaddbmm", EMULATOR_GIVEN(self, batch1, batch2, beta, alpha, out, cubeMathType), workspaceSize,
                   executor,
                   [&](Plan& plan) { build_baddbmm(plan, self, batch1, batch2, beta, alpha, out, cubeMathType); });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnMatmul)
EMULATOR_PHASE_TWO(aclnnMm)
EMULATOR_PHASE_TWO(aclnnMatmulWeightNz)
EMULATOR_PHASE_TWO(aclnnBatchMatMul)
EMULATOR_PHASE_TWO(aclnnBaddbmm)
