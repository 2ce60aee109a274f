// aclnnGroupedMatmulV4 and V5: rows in groups, each multiplied by a matrix of its own. Rows behind the last group are
// not written.
#include <algorithm>
#include <vector>

#include "emulator/operators/int8_product.h"
#include "emulator/operators/kernel_call.h"
#include "emulator/operators/lanes.h"
#include "emulator/operators/matrix.h"
#include "emulator/operators/plan.h"

namespace reprise::emulator {
namespace {

constexpr int64_t kPrefixSums = 0;
constexpr int64_t kCounts = 1;

// The tensors of both kernels.
enum GroupedTensor : size_t { kX, kGroups, kMatrix, kBias, kScale, kRowScale, kGroupedOut };

struct GroupedParameters {
  int64_t list_type = kPrefixSums;
};

struct Group {
  int64_t begin = 0;
  int64_t end = 0;
};

/// False when the list is no partition of the rows.
bool read_groups(const KernelCall<GroupedParameters>& call, std::vector<Group>& groups) {
  const HostTensor& list = call[kGroups];
  int64_t begin = 0;
  for (int64_t i = 0; i < list->elements(); ++i) {
    const int64_t value = integer_at(list.at(0), list->dtype, i);
    const int64_t end = call.parameters().list_type == kCounts ? begin + value : value;
    if (end < begin || end > call[kX]->rows()) return false;
    groups.push_back({begin, end});
    begin = end;
  }
  return true;
}

bool run_grouped(const KernelCall<GroupedParameters>& call) {
  std::vector<Group> groups;
  if (!read_groups(call, groups)) return false;
  const HostTensor& out = call[kGroupedOut];
  const HostTensor& matrix = call[kMatrix];
  const int64_t inner = matrix->size_back(2);
  const int64_t outputs = matrix->size_back(1);
  const std::vector<float> bias = read_all(call[kBias]);
  std::vector<float> x;
  std::vector<float> result;
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto [begin, end] = groups[g];
    const int64_t rows = end - begin;
    if (rows == 0) continue;
    x.resize(static_cast<size_t>(rows * inner));
    result.resize(static_cast<size_t>(rows * outputs));
    read_row(call[kX], begin * inner, rows * inner, x.data());
    for_each_column<float>(matrix, static_cast<int64_t>(g), [&](int64_t n, const float* column) {
      const float addend = bias.empty() ? 0.0F : bias[g * static_cast<size_t>(outputs) + static_cast<size_t>(n)];
      for (int64_t m = 0; m < rows; ++m) {
        result[static_cast<size_t>(m * outputs + n)] = dot(x.data() + m * inner, column, inner) + addend;
      }
    });
    write_row(out, begin * outputs, rows * outputs, result.data());
  }
  return true;
}

/// The vector of group g in a tensor [groups, outputs].
std::vector<float> row_of(const HostTensor& tensor, size_t g, int64_t outputs) {
  std::vector<float> values(static_cast<size_t>(tensor.defined() ? outputs : 0));
  if (!values.empty()) read_row(tensor, static_cast<int64_t>(g) * outputs, outputs, values.data());
  return values;
}

bool run_int8_grouped(const KernelCall<GroupedParameters>& call) {
  std::vector<Group> groups;
  if (!read_groups(call, groups)) return false;
  const HostTensor& out = call[kGroupedOut];
  const HostTensor& matrix = call[kMatrix];
  const int64_t inner = matrix->size_back(2);
  const int64_t outputs = matrix->size_back(1);
  const ColumnValues row_scale(read_all(call[kRowScale]), 1.0F);
  std::vector<float> row(static_cast<size_t>(outputs));
  std::vector<int32_t> sums;
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto [begin, end] = groups[g];
    const int64_t rows = end - begin;
    if (rows == 0) continue;
    sums.resize(static_cast<size_t>(rows * outputs));
    const auto* x = call[kX].data<int8_t>() + begin * inner;
    for_each_column<int8_t>(matrix, static_cast<int64_t>(g), [&](int64_t n, const int8_t* column) {
      for (int64_t m = 0; m < rows; ++m) sums[static_cast<size_t>(m * outputs + n)] = dot(x + m * inner, column, inner);
    });
    Int8Terms terms{ColumnValues(row_of(call[kScale], g, outputs), 1.0F), {}, ColumnValues({}), false};
    const bool float_bias = call[kBias].defined() && call[kBias]->dtype == ACL_BF16;
    if (float_bias) terms.bias = ColumnValues(row_of(call[kBias], g, outputs));
    terms.has_bias = float_bias;
    if (call[kBias].defined() && !float_bias) {
      const auto* bias = call[kBias].data<int32_t>() + static_cast<int64_t>(g) * outputs;
      terms.integer_bias.assign(bias, bias + outputs);
    }
    for (int64_t m = 0; m < rows; ++m) {
      const int32_t* of_row = sums.data() + m * outputs;
      if (out->dtype == ACL_INT32) {
        for (int64_t n = 0; n < outputs; ++n) {
          const int32_t addend = terms.integer_bias.empty() ? 0 : terms.integer_bias[static_cast<size_t>(n)];
          out.data<uint32_t>()[(begin + m) * outputs + n] =
              static_cast<uint32_t>(of_row[n]) + static_cast<uint32_t>(addend);
        }
        continue;
      }
      for (int64_t n = 0; n < outputs; ++n)
        row[static_cast<size_t>(n)] = dequantized(of_row[n], n, row_scale[begin + m], terms);
      write_row(out, (begin + m) * outputs, outputs, row.data());
    }
  }
  return true;
}

/// The groups are not known to the host: no more matrices are read than there are rows.
KernelCost grouped_cost(const ArgumentReader& arguments) {
  KernelCost cost = plain_cost(arguments);
  const auto tensors = arguments.tensors();
  const TensorArgument& matrix = tensors[kMatrix];
  const auto experts = static_cast<uint64_t>(matrix.dims[0]);
  const auto rows = static_cast<uint64_t>(tensors[kX].rows());
  if (experts > 0) cost.bytes_read -= matrix.bytes() / experts * (experts - std::min(experts, rows));
  cost.multiply_adds =
      static_cast<uint64_t>(tensors[kGroupedOut].elements()) * static_cast<uint64_t>(matrix.size_back(2));
  cost.integer = matrix.dtype == ACL_INT8;
  return cost;
}

constexpr Kernel kGroupedMatmul =
    make_kernel<GroupedParameters, run_grouped, grouped_cost>("GroupedMatmul", KernelType::kAiCore);
constexpr Kernel kInt8GroupedMatmul =
    make_kernel<GroupedParameters, run_int8_grouped, grouped_cost>("GroupedMatmulQuant", KernelType::kMix);

/// The only tensor of a list, or none of it.
TensorArgument single(const std::vector<TensorArgument>& list, const char* name) {
  require(list.size() <= 1, "{} has {} tensors, expected 1", name, list.size());
  return list.empty() ? TensorArgument() : list.front();
}

void require_absent(Plan& plan, const aclTensorList* list, const char* name) {
  require_live(list, name);
  require(list == nullptr || list->tensors.empty(), "{} is not supported", name);
  plan.input_list(nullptr);
}

struct GroupedArguments {
  TensorArgument x, groups, matrix, bias, scale, row_scale, out;
};

void check_float(const GroupedArguments& a) {
  require(is_float(a.x.dtype) && a.matrix.dtype == a.x.dtype && a.out.dtype == a.x.dtype,
          "x, weight and out have the dtypes {}, {} and {}", static_cast<int>(a.x.dtype),
          static_cast<int>(a.matrix.dtype), static_cast<int>(a.out.dtype));
  require(!a.scale.defined() && !a.row_scale.defined(), "scales of floating-point weights");
  const aclDataType bias = a.x.dtype == ACL_BF16 ? ACL_FLOAT : a.x.dtype;
  require(!a.bias.defined() || a.bias.dtype == bias, "the bias has dtype {}, expected {}",
          static_cast<int>(a.bias.dtype), static_cast<int>(bias));
}

/// The table of the 910B for int8; `version` 5 has one row more.
void check_int8(const GroupedArguments& a, int version) {
  require(a.matrix.dtype == ACL_INT8, "weight has dtype {}, expected int8", static_cast<int>(a.matrix.dtype));
  require(!a.row_scale.defined() || a.row_scale.dtype == ACL_FLOAT, "the scale of rows is not float32");
  const aclDataType scale = a.scale.dtype;
  const aclDataType bias = a.bias.dtype;
  const bool integer_bias = !a.bias.defined() || bias == ACL_INT32;
  bool fits = false;
  if (a.out.dtype == ACL_BF16) {
    const bool float_bias = !a.bias.defined() || bias == ACL_BF16;
    fits = (scale == ACL_BF16 && integer_bias) ||
           (version == 5 && float_bias && (scale == ACL_FLOAT || scale == ACL_BF16));
    require(fits || version == 5 || scale != ACL_FLOAT,
            "out of bfloat16 with scales of float32: V5 takes them, V4 only those of bfloat16");
  }
  if (a.out.dtype == ACL_FLOAT16) fits = scale == ACL_FLOAT && integer_bias;
  if (a.out.dtype == ACL_INT32) fits = !a.scale.defined() && !a.row_scale.defined() && integer_bias;
  require(fits, "scale, bias and out have the dtypes {}, {} and {}", static_cast<int>(scale), static_cast<int>(bias),
          static_cast<int>(a.out.dtype));
}

void check_shapes(const GroupedArguments& a) {
  require(a.x.rank == 2 && a.matrix.rank == 3 && a.out.rank == 2, "x, weight and out have {}, {} and {} dimensions",
          a.x.rank, a.matrix.rank, a.out.rank);
  const int64_t experts = a.matrix.dims[0];
  const int64_t outputs = a.matrix.dims[2];
  require(a.x.dims[1] == a.matrix.dims[1] && a.out.dims[0] == a.x.dims[0] && a.out.dims[1] == outputs,
          "the shapes do not go together");
  require(a.groups.dtype == ACL_INT64 && a.groups.elements() == experts, "groupList has {} elements, expected {} int64",
          a.groups.elements(), experts);
  for (const TensorArgument* rows : {&a.bias, &a.scale}) {
    require(!rows->defined() || rows->elements() == experts * outputs, "a bias or scale has {} elements, expected {}",
            rows->elements(), experts * outputs);
  }
  require(!a.row_scale.defined() || a.row_scale.elements() == a.x.dims[0], "the rows' scale has {} elements",
          a.row_scale.elements());
}

void add_grouped(Plan& plan, const GroupedArguments& a, int64_t list_type, int version) {
  const bool int8 = a.x.dtype == ACL_INT8;
  if (int8) {
    check_int8(a, version);
  } else {
    check_float(a);
  }
  check_shapes(a);
  plan.launch(int8 ? kInt8GroupedMatmul : kGroupedMatmul,
              {plan.contiguous(a.x), plan.contiguous(a.groups), prepared_matrix(plan, a.matrix, "weight"),
               plan.contiguous(a.bias), plan.contiguous(a.scale), plan.contiguous(a.row_scale)},
              {plan.staged(a.out)}, GroupedParameters{list_type}, {},
              a.matrix.dims[0] * ((a.matrix.dims[2] + 255) / 256));
}

/// The arguments of both versions.
struct GroupedCall {
  const aclTensorList *x, *weight, *bias, *scale, *offset, *antiquant_scale, *antiquant_offset, *row_scale;
  const aclTensor* groups;
  const aclTensorList *activation, *activation_scale, *activation_offset;
  int64_t split, type, list_type, act;
  const aclTensorList *out, *feature_out, *scale_out;
};

void build_grouped(Plan& plan, const GroupedCall& call, int version) {
  for (const aclTensorList* list : {call.x, call.weight, call.out}) {
    require_pointer(list, "x, weight or out");
    require(list->tensors.size() == 1, "a list has {} tensors, expected 1", list->tensors.size());
  }
  GroupedArguments a;
  a.x = single(plan.input_list(call.x), "x");
  a.matrix = single(plan.input_list(call.weight), "weight");
  a.bias = single(plan.input_list(call.bias), "bias");
  a.scale = single(plan.input_list(call.scale), "scale");
  require_absent(plan, call.offset, "offset");
  require_absent(plan, call.antiquant_scale, "antiquantScale");
  require_absent(plan, call.antiquant_offset, "antiquantOffset");
  a.row_scale = single(plan.input_list(call.row_scale), "perTokenScale");
  a.groups = plan.input(call.groups, "groupList");
  require_absent(plan, call.activation, "activationInput");
  require_absent(plan, call.activation_scale, "activationQuantScale");
  require_absent(plan, call.activation_offset, "activationQuantOffset");
  require(call.split == 2 || call.split == 3, "splitItem is {}, expected 2 or 3 for one output", call.split);
  require(call.type == 0, "groupType is {}, expected 0", call.type);
  require(call.list_type == kPrefixSums || call.list_type == kCounts, "groupListType is {}", call.list_type);
  require(call.act == 0, "actType is {}, expected 0", call.act);
  require(call.feature_out == nullptr && call.scale_out == nullptr, "activation outputs are not supported");
  a.out = single(plan.output_list(call.out), "out");
  add_grouped(plan, a, call.list_type, version);
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

// The parameters that both versions have before and behind V5's tuning.
#define GROUPED_INPUTS                                                                                                 \
  const aclTensorList *x, const aclTensorList *weight, const aclTensorList *biasOptional,                              \
      const aclTensorList *scaleOptional, const aclTensorList *offsetOptional,                                         \
      const aclTensorList *antiquantScaleOptional, const aclTensorList *antiquantOffsetOptional,                       \
      const aclTensorList *perTokenScaleOptional, const aclTensor *groupListOptional,                                  \
      const aclTensorList *activationInputOptional, const aclTensorList *activationQuantScaleOptional,                 \
      const aclTensorList *activationQuantOffsetOptional, int64_t splitItem, int64_t groupType, int64_t groupListType, \
      int64_t actType
#define GROUPED_OUTPUTS                                                                                     \
  aclTensorList *out, aclTensorList *activationFeatureOutOptional, aclTensorList *dynQuantScaleOutOptional, \
      uint64_t *workspaceSize, aclOpExecutor **executor
#define GROUPED_INPUT_NAMES                                                                                \
  x, weight, biasOptional, scaleOptional, offsetOptional, antiquantScaleOptional, antiquantOffsetOptional, \
      perTokenScaleOptional, groupListOptional, activationInputOptional, activationQuantScaleOptional,     \
      activationQuantOffsetOptional, splitItem, groupType, groupListType, actType
#define GROUPED_OUTPUT_NAMES out, activationFeatureOutOptional, dynQuantScaleOutOptional
#define GROUPED_CALL {GROUPED_INPUT_NAMES, GROUPED_OUTPUT_NAMES}

extern "C" {

aclnnStatus aclnnGroupedMatmulV4GetWorkspaceSize(GROUPED_INPUTS, GROUPED_OUTPUTS) {
  return phase_one("aclnnGroupedMatmulV4", EMULATOR_GIVEN(GROUPED_INPUT_NAMES, GROUPED_OUTPUT_NAMES), workspaceSize,
                   executor, [&](Plan& plan) {
                     const GroupedCall call = GROUPED_CALL;
                     build_grouped(plan, call, 4);
                   });
}

// What the tuning asks for changes no number.
aclnnStatus aclnnGroupedMatmulV5GetWorkspaceSize(GROUPED_INPUTS, const aclIntArray* tuningConfigOptional,
                                                 GROUPED_OUTPUTS) {
  return phase_one("aclnnGroupedMatmulV5",
                   EMULATOR_GIVEN(GROUPED_INPUT_NAMES, tuningConfigOptional, GROUPED_OUTPUT_NAMES), workspaceSize,
                   executor, [&](Plan& plan) {
                     const GroupedCall call = GROUPED_CALL;
                     build_grouped(plan, call, 5);
                   });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnGroupedMatmulV4)
EMULATOR_PHASE_TWO(aclnnGroupedMatmulV5)
