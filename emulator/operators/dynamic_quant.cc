// aclnnDynamicQuantV2 and V3: quantisation with scales (and zero points) of rows, columns or the whole tensor.
#include <algorithm>
#include <string_view>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/quantize_rows.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

/// Elements that share a scale: a row, a column of the last two axes, or all.
enum class Shared : int64_t { kRow, kColumn, kAll };

struct DynamicParameters {
  Shared shared = Shared::kRow;
};

enum DynamicTensor : size_t { kX, kSmooth, kGroups, kY, kScale, kOffset, kDynamicTensors };

constexpr float kLevels = 255;  ///< between the least and the greatest of int8
constexpr float kGreatest = 127;

/// x times the factors of its columns, of its expert's columns, or of its rows where columns are quantised. False when
/// the groups do not end with the rows.
bool smooth(const KernelCall<DynamicParameters>& call, std::vector<float>& values) {
  const HostTensor& x = call[kX];
  const HostTensor& groups = call[kGroups];
  const std::vector<float> factors = read_all(call[kSmooth]);
  const int64_t columns = x->columns();
  const bool of_rows = call.parameters().shared == Shared::kColumn;
  int64_t group = 0;
  for (int64_t row = 0; row < x->rows(); ++row) {
    if (groups.defined()) {
      while (group < groups->elements() && row >= groups.data<int32_t>()[group]) ++group;
      if (group == groups->elements()) return false;
    }
    if (factors.empty()) continue;
    float* to = values.data() + row * columns;
    for (int64_t i = 0; i < columns; ++i) {
      to[i] *= factors[static_cast<size_t>(of_rows ? row % x->size_back(2) : group * columns + i)];
    }
  }
  return !groups.defined() || groups.data<int32_t>()[groups->elements() - 1] == x->rows();
}

/// The least and the greatest become -128 and 127. A line of equal elements has the scale 0 and becomes zeros.
void quantize_between(const std::vector<float>& x, int8_t* y, float& scale, float& offset) {
  const auto [least, greatest] = std::ranges::minmax(x);
  scale = (greatest - least) / kLevels;
  offset = scale == 0 ? 0 : kGreatest - greatest / scale;
  for (size_t i = 0; i < x.size(); ++i) y[i] = scale == 0 ? int8_t{0} : float_to_int8(x[i] / scale + offset);
}

bool run_dynamic(const KernelCall<DynamicParameters>& call) {
  const HostTensor& x = call[kX];
  std::vector<float> values = read_all(x);
  if (!smooth(call, values)) return false;
  const Shared shared = call.parameters().shared;
  const int64_t columns = x->columns();
  const int64_t stride = shared == Shared::kColumn ? columns : 1;
  const int64_t count = shared == Shared::kAll ? x->elements() : shared == Shared::kRow ? columns : x->size_back(2);
  std::vector<float> line(static_cast<size_t>(count));
  std::vector<int8_t> quantized(line.size());
  for (int64_t i = 0; i < x->elements() / count; ++i) {
    const int64_t first = shared == Shared::kColumn ? i / columns * count * columns + i % columns : i * count;
    for (int64_t j = 0; j < count; ++j) line[static_cast<size_t>(j)] = values[static_cast<size_t>(first + j * stride)];
    float& scale = call[kScale].data<float>()[i];
    if (call[kOffset].defined()) {
      quantize_between(line, quantized.data(), scale, call[kOffset].data<float>()[i]);
    } else {
      scale = dynamic_quantize_row(line.data(), count, quantized.data());
    }
    for (int64_t j = 0; j < count; ++j) {
      call[kY].data<int8_t>()[first + j * stride] = quantized[static_cast<size_t>(j)];
    }
  }
  return true;
}

constexpr Kernel kDynamicQuantV2 = make_kernel<DynamicParameters, run_dynamic>("DynamicQuantV2");

using DynamicTensors = std::array<TensorArgument, kDynamicTensors>;

void check_smooth(const DynamicTensors& t, Shared shared) {
  const TensorArgument& x = t[kX];
  const TensorArgument& factors = t[kSmooth];
  const TensorArgument& groups = t[kGroups];
  require(!factors.defined() || factors.dtype == x.dtype, "smoothScales has dtype {}, x has {}",
          static_cast<int>(factors.dtype), static_cast<int>(x.dtype));
  if (!groups.defined()) {
    const int64_t expected = shared == Shared::kColumn ? x.size_back(2) : x.columns();
    require(!factors.defined() || (factors.rank == 1 && factors.elements() == expected),
            "smoothScales has {} elements, expected {}", factors.elements(), expected);
    return;
  }
  require(shared == Shared::kRow, "groupIndex with another quantMode than \"pertoken\"");
  require(groups.dtype == ACL_INT32 && groups.rank == 1 && groups.elements() > 0, "groupIndex is no list of int32");
  require(factors.rank == 2 && factors.dims[0] == groups.elements() && factors.columns() == x.columns(),
          "smoothScales is not [{}, {}]", groups.elements(), x.columns());
  require(groups.elements() <= 1024, "there are {} experts, expected at most 1024", groups.elements());
}

void build_dynamic(Plan& plan, std::initializer_list<const aclTensor*> given, int64_t dtype, Shared shared) {
  const aclTensor* const* tensors = given.begin();
  DynamicTensors t;
  t[kX] = plan.input(tensors[kX], "x");
  t[kSmooth] = plan.optional_input(tensors[kSmooth]);
  t[kGroups] = plan.optional_input(tensors[kGroups]);
  t[kY] = plan.output(tensors[kY], "yOut");
  t[kScale] = plan.output(tensors[kScale], "scaleOut");
  t[kOffset] = plan.optional_output(tensors[kOffset]);
  const TensorArgument& x = t[kX];
  require(x.dtype == ACL_FLOAT16 || x.dtype == ACL_BF16, "x has dtype {}, expected 16-bit floating point",
          static_cast<int>(x.dtype));
  require(x.rank >= 2, "x has {} dimensions, expected at least 2", x.rank);
  require(dtype == ACL_INT8 && t[kY].dtype == ACL_INT8, "dstType is {} and yOut has dtype {}, expected int8", dtype,
          static_cast<int>(t[kY].dtype));
  require(std::ranges::equal(x.shape(), t[kY].shape()), "yOut has another shape than x");
  check_smooth(t, shared);
  const int64_t count = shared == Shared::kAll ? x.elements() : shared == Shared::kRow ? x.columns() : x.size_back(2);
  const int64_t lines = count == 0 ? 0 : x.elements() / count;
  for (const DynamicTensor result : {kScale, kOffset}) {
    require(!t[result].defined() || (t[result].dtype == ACL_FLOAT && t[result].elements() == lines),
            "scaleOut or offsetOut has {} elements of dtype {}, expected {} of float32", t[result].elements(),
            static_cast<int>(t[result].dtype), lines);
  }
  plan.launch(kDynamicQuantV2, {plan.contiguous(x), plan.contiguous(t[kSmooth]), plan.contiguous(t[kGroups])},
              {plan.staged(t[kY]), plan.staged(t[kScale]), plan.staged(t[kOffset])}, DynamicParameters{shared}, {},
              lines);
}

Shared shared_of(const char* mode) {
  require_pointer(mode, "quantMode");
  const std::string_view name = mode;
  if (name == "pertoken") return Shared::kRow;
  if (name == "perchannel") return Shared::kColumn;
  require(name == "pertensor", "quantMode is \"{}\"", name);
  return Shared::kAll;
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnDynamicQuantV2GetWorkspaceSize(const aclTensor* x, const aclTensor* smoothScalesOptional,
                                                const aclTensor* groupIndexOptional, int64_t dstType,
                                                const aclTensor* yOut, const aclTensor* scaleOut,
                                                const aclTensor* offsetOut, uint64_t* workspaceSize,
                                                aclOpExecutor** executor) {
  return phase_one("aclnnDynamicQuantV2",
                   EMULATOR_GIVEN(x, smoothScalesOptional, groupIndexOptional, dstType, yOut, scaleOut, offsetOut),
                   workspaceSize, executor, [&](Plan& plan) {
                     build_dynamic(plan, {x, smoothScalesOptional, groupIndexOptional, yOut, scaleOut, offsetOut},
                                   dstType, Shared::kRow);
                   });
}

aclnnStatus aclnnDynamicQuantV3GetWorkspaceSize(const aclTensor* x, const aclTensor* smoothScalesOptional,
                                                const aclTensor* groupIndexOptional, int64_t dstType,
                                                bool isSymmetrical, const char* quantMode, const aclTensor* yOut,
                                                const aclTensor* scaleOut, const aclTensor* offsetOut,
                                                uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnDynamicQuantV3",
                   EMULATOR_GIVEN(x, smoothScalesOptional, groupIndexOptional, dstType, isSymmetrical, quantMode, yOut,
                                  scaleOut, offsetOut),
                   workspaceSize, executor, [&](Plan& plan) {
                     if (!isSymmetrical) require_pointer(offsetOut, "offsetOut");
                     require(!isSymmetrical || offsetOut == nullptr, "offsetOut of a symmetric quantisation");
                     build_dynamic(plan, {x, smoothScalesOptional, groupIndexOptional, yOut, scaleOut, offsetOut},
                                   dstType, shared_of(quantMode));
                   });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnDynamicQuantV2)
EMULATOR_PHASE_TWO(aclnnDynamicQuantV3)
