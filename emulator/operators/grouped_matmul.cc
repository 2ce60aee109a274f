// aclnnGroupedMatmulV4: rows in groups, each multiplied by a matrix of its own. Rows behind the last group are not
// written.
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
    if (call[kBias].defined()) {
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
  require(!a.bias.defined() || a.bias.dtype == a.x.dtype || a.bias.dtype == ACL_FLOAT, "the bias has dtype {}",
          static_cast<int>(a.bias.dtype));
}

void check_int8(const GroupedArguments& a) {
  require(a.matrix.dtype == ACL_INT8, "weight has dtype {}, expected int8", static_cast<int>(a.matrix.dtype));
  require(!a.bias.defined() || a.bias.dtype == ACL_INT32, "the bias has dtype {}", static_cast<int>(a.bias.dtype));
  require(!a.row_scale.defined() || a.row_scale.dtype == ACL_FLOAT, "the scale of rows is not float32");
  const bool plain = a.scale.defined() && (a.scale.dtype == ACL_FLOAT || a.scale.dtype == ACL_BF16);
  bool fits = false;
  if (a.out.dtype == ACL_BF16) fits = plain;
  if (a.out.dtype == ACL_FLOAT16) fits = plain && a.scale.dtype == ACL_FLOAT;
  if (a.out.dtype == ACL_INT32) fits = !a.scale.defined() && !a.row_scale.defined();
  require(fits, "scale and out have the dtypes {} and {}", static_cast<int>(a.scale.dtype),
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

void add_grouped(Plan& plan, const GroupedArguments& a, int64_t list_type) {
  const bool int8 = a.x.dtype == ACL_INT8;
  if (int8) {
    check_int8(a);
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

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" aclnnStatus aclnnGroupedMatmulV4GetWorkspaceSize(
    const aclTensorList* x, const aclTensorList* weight, const aclTensorList* biasOptional,
    const aclTensorList* scaleOptional, const aclTensorList* offsetOptional,
    const aclTensorList* antiquantScaleOptional, const aclTensorList* antiquantOffsetOptional,
    const aclTensorList* perTokenScaleOptional, const aclTensor* groupListOptional,
    const aclTensorList* activationInputOptional, const aclTensorList* activationQuantScaleOptional,
    const aclTensorList* activationQuantOffsetOptional, int64_t splitItem, int64_t groupType, int64_t groupListType,
    int64_t actType, aclTensorList* out, aclTensorList* activationFeatureOutOptional,
    aclTensorList* dynQuantScaleOutOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnGroupedMatmulV4", workspaceSize, executor, [&](Plan& plan) {
    for (const aclTensorList* list : {x, weight, static_cast<const aclTensorList*>(out)}) {
      require_pointer(list, "x, weight or out");
      require(list->tensors.size() == 1, "a list has {} tensors, expected 1", list->tensors.size());
    }
    GroupedArguments a;
    a.x = single(plan.input_list(x), "x");
    a.matrix = single(plan.input_list(weight), "weight");
    a.bias = single(plan.input_list(biasOptional), "bias");
    a.scale = single(plan.input_list(scaleOptional), "scale");
    require_absent(plan, offsetOptional, "offset");
    require_absent(plan, antiquantScaleOptional, "antiquantScale");
    require_absent(plan, antiquantOffsetOptional, "antiquantOffset");
    a.row_scale = single(plan.input_list(perTokenScaleOptional), "perTokenScale");
    a.groups = plan.input(groupListOptional, "groupList");
    require_absent(plan, activationInputOptional, "activationInput");
    require_absent(plan, activationQuantScaleOptional, "activationQuantScale");
    require_absent(plan, activationQuantOffsetOptional, "activationQuantOffset");
    require(splitItem == 2 || splitItem == 3, "splitItem is {}, expected 2 or 3 for one output", splitItem);
    require(groupType == 0, "groupType is {}, expected 0", groupType);
    require(groupListType == kPrefixSums || groupListType == kCounts, "groupListType is {}", groupListType);
    require(actType == 0, "actType is {}, expected 0", actType);
    require(activationFeatureOutOptional == nullptr && dynQuantScaleOutOptional == nullptr,
            "activation outputs are not supported");
    a.out = single(plan.output_list(out), "out");
    add_grouped(plan, a, groupListType);
  });
}
EMULATOR_PHASE_TWO(aclnnGroupedMatmulV4)
