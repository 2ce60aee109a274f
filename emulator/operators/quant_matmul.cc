// Products of int8 matrices: exact sums in int32, then scales and bias in float32, rounded once.
#include <algorithm>
#include <vector>

#include "emulator/operators/int8_product.h"
#include "emulator/operators/kernel_call.h"
#include "emulator/operators/lanes.h"
#include "emulator/operators/matrix.h"
#include "emulator/operators/plan.h"

namespace reprise::emulator {
namespace {

enum QuantTensor : size_t { kX, kMatrix, kScale, kOffset, kRowScale, kBias, kOut };

bool run_quant_matmul(const KernelCall<NoParameters>& call) {
  const HostTensor& matrix = call[kMatrix];
  const HostTensor& out = call[kOut];
  const int64_t inner = matrix->size_back(2);
  const int64_t outputs = matrix->size_back(1);
  const int64_t rows = out->rows();
  Int8Terms terms{ColumnValues(read_scales(call[kScale]), 1.0F), {}, ColumnValues({}), false};
  const ColumnValues offset(read_all(call[kOffset]));
  const ColumnValues row_scale(read_all(call[kRowScale]), 1.0F);
  const bool integer_bias = call[kBias].defined() && call[kBias]->dtype == ACL_INT32;
  if (integer_bias) terms.integer_bias.assign(call[kBias].data<int32_t>(), call[kBias].data<int32_t>() + outputs);
  terms.has_bias = call[kBias].defined() && !integer_bias;
  if (terms.has_bias) terms.bias = ColumnValues(read_all(call[kBias]));
  // Without scales: the sums themselves.
  if (out->dtype == ACL_INT32) terms.scale = ColumnValues({}, 1.0F);

  const auto* x = call[kX].data<int8_t>();
  std::vector<float> result(out->dtype == ACL_INT32 ? 0 : static_cast<size_t>(rows * outputs));
  for_each_column<int8_t>(matrix, 0, [&](int64_t n, const int8_t* column) {
    for (int64_t m = 0; m < rows; ++m) {
      const int32_t sum = dot(x + m * inner, column, inner);
      if (out->dtype == ACL_INT32) {
        const int32_t addend = integer_bias ? terms.integer_bias[static_cast<size_t>(n)] : 0;
        out.data<uint32_t>()[m * outputs + n] = static_cast<uint32_t>(sum) + static_cast<uint32_t>(addend);
      } else {
        result[static_cast<size_t>(m * outputs + n)] = dequantized(sum, n, row_scale[m], terms);
      }
    }
  });
  if (out->dtype == ACL_INT8) {
    for (int64_t i = 0; i < rows * outputs; ++i) {
      out.data<int8_t>()[i] = float_to_int8(result[static_cast<size_t>(i)] + offset[i % outputs]);
    }
  } else if (out->dtype != ACL_INT32) {
    write_row(out, 0, rows * outputs, result.data());
  }
  return true;
}

KernelCost quant_cost(const ArgumentReader& arguments) {
  KernelCost cost = plain_cost(arguments);
  const auto tensors = arguments.tensors();
  cost.multiply_adds =
      static_cast<uint64_t>(tensors[kOut].elements()) * static_cast<uint64_t>(tensors[kMatrix].size_back(2));
  cost.integer = true;
  return cost;
}

constexpr Kernel kQuantMatmul =
    make_kernel<NoParameters, run_quant_matmul, quant_cost>("QuantBatchMatmulV3", KernelType::kMix);

struct QuantArguments {
  TensorArgument x, matrix, scale, offset, row_scale, bias, out;
};

/// The combinations of dtypes of the interface's table.
void check_dtypes(const QuantArguments& a) {
  require(a.x.dtype == ACL_INT8 && a.matrix.dtype == ACL_INT8, "x1 and x2 are not int8");
  const bool packed = a.scale.dtype == ACL_UINT64 || a.scale.dtype == ACL_INT64;
  const bool plain = a.scale.dtype == ACL_FLOAT || a.scale.dtype == ACL_BF16;
  require(packed || plain, "the scale has dtype {}", static_cast<int>(a.scale.dtype));
  require(!a.row_scale.defined() || a.row_scale.dtype == ACL_FLOAT, "the scale of rows is not float32");
  require(!a.offset.defined() || (a.offset.dtype == ACL_FLOAT && a.out.dtype == ACL_INT8), "an offset without int8");
  const aclDataType bias = a.bias.defined() ? a.bias.dtype : ACL_INT32;
  bool fits = false;
  if (a.out.dtype == ACL_BF16) {
    fits = plain && (bias == ACL_INT32 || bias == ACL_BF16 || bias == ACL_FLOAT);
  } else if (a.out.dtype == ACL_FLOAT16) {
    const bool of_rows = a.scale.dtype == ACL_FLOAT && a.row_scale.defined();
    const bool of_all = packed && !a.row_scale.defined() && bias == ACL_INT32;
    fits = of_all || (of_rows && (bias == ACL_INT32 || bias == ACL_FLOAT16 || bias == ACL_FLOAT));
  } else if (a.out.dtype == ACL_INT8) {
    fits = packed && !a.row_scale.defined() && bias == ACL_INT32;
  } else if (a.out.dtype == ACL_INT32) {
    fits = plain && !a.row_scale.defined() && bias == ACL_INT32;
  }
  require(fits, "scale, bias and out have the dtypes {}, {} and {}", static_cast<int>(a.scale.dtype),
          static_cast<int>(bias), static_cast<int>(a.out.dtype));
}

void check_shapes(const QuantArguments& a) {
  require(a.x.rank >= 2 && a.matrix.rank == 2 && a.out.rank == a.x.rank, "the ranks are {}, {} and {}", a.x.rank,
          a.matrix.rank, a.out.rank);
  const int64_t outputs = a.matrix.size_back(1);
  require(a.x.size_back(1) == a.matrix.size_back(2) && a.out.size_back(1) == outputs && a.out.rows() == a.x.rows(),
          "the shapes do not go together");
  require(a.x.size_back(1) <= kMostInt8Terms, "the inner axis has {} elements, expected at most {}", a.x.size_back(1),
          kMostInt8Terms);
  for (const TensorArgument* vector : {&a.scale, &a.offset}) {
    const int64_t count = vector->defined() ? vector->elements() : 1;
    require(count == 1 || count == outputs, "a scale or offset has {} elements, expected {}", count, outputs);
  }
  require(!a.bias.defined() || a.bias.elements() == outputs, "the bias has {} elements, expected {}", a.bias.elements(),
          outputs);
  require(!a.row_scale.defined() || a.row_scale.elements() == a.x.rows(), "the rows' scale has {} elements",
          a.row_scale.elements());
}

void add_quant_matmul(Plan& plan, QuantArguments a, bool transpose_x, bool transpose_matrix) {
  require(a.x.rank >= 2 && a.matrix.rank >= 2, "x1 and x2 have {} and {} dimensions", a.x.rank, a.matrix.rank);
  if (transpose_x) a.x = transposed(a.x);
  if (transpose_matrix) a.matrix = transposed(a.matrix);
  check_dtypes(a);
  check_shapes(a);
  const int64_t work = (a.out.rows() + 127) / 128 * ((a.out.size_back(1) + 255) / 256);
  plan.launch(kQuantMatmul,
              {plan.contiguous(a.x), prepared_matrix(plan, a.matrix, "x2"), plan.contiguous(a.scale),
               plan.contiguous(a.offset), plan.contiguous(a.row_scale), plan.contiguous(a.bias)},
              {plan.staged(a.out)}, NoParameters{}, {}, work);
}

/// The interface of V5 and of the form for FRACTAL_NZ.
void build_v5(Plan& plan, std::initializer_list<const aclTensor*> tensors, bool transpose_x, bool transpose_matrix,
              int64_t group_size, aclTensor* out, aclFormat format) {
  const aclTensor* const* t = tensors.begin();  // x1, x2, x1Scale, x2Scale, yScale, x1Offset, x2Offset, yOffset, bias
  QuantArguments a;
  a.x = plan.input(t[0], "x1");
  a.matrix = plan.input(t[1], "x2");
  a.row_scale = plan.optional_input(t[2]);
  a.scale = plan.input(t[3], "x2Scale");
  require(t[4] == nullptr && t[5] == nullptr && t[7] == nullptr && group_size == 0,
          "yScale, x1Offset, yOffset and groupSize are not supported for int8");
  plan.optional_input(nullptr);
  plan.optional_input(nullptr);
  a.offset = plan.optional_input(t[6]);
  plan.optional_input(nullptr);
  a.bias = plan.optional_input(t[8]);
  a.out = plan.output(out, "out");
  require(a.matrix.format == format, "x2 has format {}, expected {}", static_cast<int>(a.matrix.format),
          static_cast<int>(format));
  add_quant_matmul(plan, a, transpose_x, transpose_matrix);
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnQuantMatmulV3GetWorkspaceSize(const aclTensor* x1, const aclTensor* x2, const aclTensor* scale,
                                               const aclTensor* offset, const aclTensor* bias, bool transposeX1,
                                               bool transposeX2, const aclTensor* out, uint64_t* workspaceSize,
                                               aclOpExecutor** executor) {
  return phase_one("aclnnQuantMatmulV3", EMULATOR_GIVEN(x1, x2, scale, offset, bias, transposeX1, transposeX2, out),
                   workspaceSize, executor, [&](Plan& plan) {
                     QuantArguments a;
                     a.x = plan.input(x1, "x1");
                     a.matrix = plan.input(x2, "x2");
                     a.scale = plan.input(scale, "scale");
                     a.offset = plan.optional_input(offset);
                     a.bias = plan.optional_input(bias);
                     a.out = plan.output(out, "out");
                     add_quant_matmul(plan, a, transposeX1, transposeX2);
                   });
}

aclnnStatus aclnnQuantMatmulV4GetWorkspaceSize(const aclTensor* x1, const aclTensor* x2, const aclTensor* scale,
                                               const aclTensor* offsetOptional, const aclTensor* pertokenScaleOptional,
                                               const aclTensor* biasOptional, bool transposeX1, bool transposeX2,
                                               const aclTensor* out, uint64_t* workspaceSize,
                                               aclOpExecutor** executor) {
  return phase_one(
      "aclnnQuantMatmulV4",
      EMULATOR_GIVEN(x1, x2, scale, offsetOptional, pertokenScaleOptional, biasOptional, transposeX1, transposeX2, out),
      workspaceSize, executor, [&](Plan& plan) {
        QuantArguments a;
        a.x = plan.input(x1, "x1");
        a.matrix = plan.input(x2, "x2");
        a.scale = plan.input(scale, "scale");
        a.offset = plan.optional_input(offsetOptional);
        a.row_scale = plan.optional_input(pertokenScaleOptional);
        a.bias = plan.optional_input(biasOptional);
        a.out = plan.output(out, "out");
        add_quant_matmul(plan, a, transposeX1, transposeX2);
      });
}

aclnnStatus aclnnQuantMatmulV5GetWorkspaceSize(const aclTensor* x1, const aclTensor* x2, const aclTensor* x1Scale,
                                               const aclTensor* x2Scale, const aclTensor* yScale,
                                               const aclTensor* x1Offset, const aclTensor* x2Offset,
                                               const aclTensor* yOffset, const aclTensor* bias, bool transposeX1,
                                               bool transposeX2, int64_t groupSize, aclTensor* out,
                                               uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnQuantMatmulV5",
                   EMULATOR_GIVEN(x1, x2, x1Scale, x2Scale, yScale, x1Offset, x2Offset, yOffset, bias, transposeX1,
                                  transposeX2, groupSize, out),
                   workspaceSize, executor, [&](Plan& plan) {
                     build_v5(plan, {x1, x2, x1Scale, x2Scale, yScale, x1Offset, x2Offset, yOffset, bias}, transposeX1,
                              transposeX2, groupSize, out, ACL_FORMAT_ND);
                   });
}

aclnnStatus aclnnQuantMatmulWeightNzGetWorkspaceSize(const aclTensor* x1, const aclTensor* x2, const aclTensor* x1Scale,
                                                     const aclTensor* x2Scale, const aclTensor* yScale,
                                                     const aclTensor* x1Offset, const aclTensor* x2Offset,
                                                     const aclTensor* yOffset, const aclTensor* bias, bool transposeX1,
                                                     bool transposeX2, int64_t groupSize, aclTensor* out,
                                                     uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnQuantMatmulWeightNz",
                   EMULATOR_GIVEN(x1, x2, x1Scale, x2Scale, yScale, x1Offset, x2Offset, yOffset, bias, transposeX1,
                                  transposeX2, groupSize, out),
                   workspaceSize, executor, [&](Plan& plan) {
                     build_v5(plan, {x1, x2, x1Scale, x2Scale, yScale, x1Offset, x2Offset, yOffset, bias}, transposeX1,
                              transposeX2, groupSize, out, ACL_FORMAT_FRACTAL_NZ);
                   });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnQuantMatmulV3)
EMULATOR_PHASE_TWO(aclnnQuantMatmulV4)
EMULATOR_PHASE_TWO(aclnnQuantMatmulV5)
EMULATOR_PHASE_TWO(aclnnQuantMatmulWeightNz)
