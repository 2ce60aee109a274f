// aclnnNpuFormatCast: between plain matrices and FRACTAL_NZ.
#include "emulator/operators/format_cast.h"

#include <algorithm>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/matrix.h"
#include "emulator/operators/plan.h"

namespace reprise::emulator {
namespace {

/// `to_blocks`: the second tensor is the blocked one.
struct FormatParameters {
  int64_t batches = 1;
  int64_t height = 1;
  int64_t width = 1;
  int32_t to_blocks = 1;
};

bool run_format_cast(const KernelCall<FormatParameters>& call) {
  const FormatParameters& p = call.parameters();
  const bool to_blocks = p.to_blocks != 0;
  const HostTensor& plain = call[to_blocks ? 0 : 1];
  const HostTensor& blocked = call[to_blocks ? 1 : 0];
  const size_t size = size_of(plain->dtype);
  const int64_t columns = nz_columns(plain->dtype);
  const int64_t blocked_elements = nz_elements(p.height, p.width, plain->dtype);
  if (to_blocks) std::memset(blocked.at(0), 0, static_cast<size_t>(p.batches * blocked_elements) * size);
  for (int64_t batch = 0; batch < p.batches; ++batch) {
    for (int64_t row = 0; row < p.height; ++row) {
      for (int64_t column = 0; column < p.width; column += columns) {
        std::byte* in_plain = plain.at((batch * p.height + row) * p.width + column);
        std::byte* in_blocks = blocked.at(batch * blocked_elements + nz_index(row, column, p.height, columns));
        const size_t bytes = static_cast<size_t>(std::min(columns, p.width - column)) * size;
        std::memcpy(to_blocks ? in_blocks : in_plain, to_blocks ? in_plain : in_blocks, bytes);
      }
    }
  }
  return true;
}

constexpr Kernel kTransData = make_kernel<FormatParameters, run_format_cast>("TransData");

void build_format_cast(Plan& plan, const aclTensor* source, aclTensor* destination) {
  const TensorArgument from = plan.input(source, "srcTensor");
  const TensorArgument to = plan.output(destination, "dstTensor");
  require(from.dtype == to.dtype, "the dtypes are {} and {}", static_cast<int>(from.dtype), static_cast<int>(to.dtype));
  require(from.is_nz() != to.is_nz(), "both tensors have format {}", static_cast<int>(from.format));
  const TensorArgument& plain = to.is_nz() ? from : to;
  const TensorArgument& blocked = to.is_nz() ? to : from;
  require(plain.rank >= 2, "the plain tensor has {} dimensions, expected at least 2", plain.rank);
  FormatParameters parameters{
      .height = plain.size_back(2), .width = plain.size_back(1), .to_blocks = to.is_nz() ? 1 : 0};
  for (int32_t axis = 3; axis <= plain.rank; ++axis) parameters.batches *= plain.size_back(axis);
  const int64_t expected = parameters.batches * nz_elements(parameters.height, parameters.width, plain.dtype);
  require(blocked.storage_elements == expected, "the blocked tensor has {} elements of storage, expected {}",
          blocked.storage_elements, expected);
  if (to.is_nz()) {
    add_to_blocks(plan, plan.contiguous(from), to);
  } else {
    plan.launch(kTransData, {from}, {plan.staged(to)}, parameters);
  }
}

}  // namespace

void add_to_blocks(Plan& plan, const TensorArgument& plain, const TensorArgument& blocked) {
  FormatParameters parameters{.height = plain.size_back(2), .width = plain.size_back(1)};
  for (int32_t axis = 3; axis <= plain.rank; ++axis) parameters.batches *= plain.size_back(axis);
  plan.launch(kTransData, {plain}, {blocked}, parameters);
}

std::vector<int64_t> blocked_shape(std::span<const int64_t> plain, aclDataType dtype) {
  const int64_t columns = nz_columns(dtype);
  std::vector<int64_t> dims(plain.begin(), plain.end() - 2);
  dims.push_back((plain.back() + columns - 1) / columns);
  dims.push_back((plain[plain.size() - 2] + kNzRows - 1) / kNzRows);
  dims.push_back(kNzRows);
  dims.push_back(columns);
  return dims;
}

}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnNpuFormatCastGetWorkspaceSize(const aclTensor* srcTensor, aclTensor* dstTensor,
                                               uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnNpuFormatCast", EMULATOR_GIVEN(srcTensor, dstTensor), workspaceSize, executor,
                   [&](Plan& plan) { build_format_cast(plan, srcTensor, dstTensor); });
}

aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor* srcTensor, const int dstFormat,
                                                     const int additionalDtype, int64_t** dstShape,
                                                     uint64_t* dstShapeSize, int* actualFormat) {
  constexpr const char* kName = "aclnnNpuFormatCastCalculateSizeAndFormat";
  OperatorCall call(kName, EMULATOR_GIVEN(srcTensor, dstFormat, additionalDtype));
  if (call.fault() != ACLNN_SUCCESS) return call.end(call.fault(), "injected fault");
  try {
    require_pointer(srcTensor, "srcTensor");
    require_pointer(dstShape, "dstShape");
    require_pointer(dstShapeSize, "dstShapeSize");
    require_pointer(actualFormat, "actualFormat");
    require(dstFormat == ACL_FORMAT_FRACTAL_NZ, "dstFormat is {}, expected {}", dstFormat,
            static_cast<int>(ACL_FORMAT_FRACTAL_NZ));
    const auto dtype = additionalDtype == -1 ? srcTensor->dtype : static_cast<aclDataType>(additionalDtype);
    require(size_of(dtype) != 0 && srcTensor->dims.size() >= 2, "srcTensor has {} dimensions and dtype {}",
            srcTensor->dims.size(), static_cast<int>(dtype));
    const std::vector<int64_t> shape = blocked_shape(srcTensor->dims, dtype);
    *dstShapeSize = shape.size();
    // The caller deletes it.
    *dstShape = new int64_t[shape.size()];
    std::ranges::copy(shape, *dstShape);
    *actualFormat = dstFormat;
    call.answer("actualFormat", *actualFormat);
    return call.end(ACLNN_SUCCESS, {});
  } catch (const OperatorError& error) {
    return call.end(error.status(), error.what());
  }
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnNpuFormatCast)
