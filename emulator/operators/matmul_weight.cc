// aclnnTransMatmulWeight, which rewrites a weight as FRACTAL_NZ where it lies, and how much room that needs.
#include "emulator/operators/copy_kernels.h"
#include "emulator/operators/format_cast.h"
#include "emulator/operators/matrix.h"

namespace reprise::emulator {
namespace {

constexpr size_t kMostAxesOfFloats = 3;
constexpr size_t kMostAxes = 6;

int64_t elements_in_blocks(std::span<const int64_t> shape, aclDataType dtype) {
  constexpr int64_t kMostElements = int64_t{1} << 48;
  for (const int64_t size : shape) require(size >= 0 && size <= kMostElements, "a size is {}", size);
  int64_t count = 1;
  for (const int64_t size : blocked_shape(shape, dtype)) {
    require(!__builtin_mul_overflow(count, size, &count) && count <= kMostElements, "the shape has too many elements");
  }
  return count;
}

void build_weight(Plan& plan, aclTensor* weight) {
  const TensorArgument plain = plan.in_place(weight, "mmWeightRef");
  const bool int8 = plain.dtype == ACL_INT8;
  require(int8 || plain.dtype == ACL_FLOAT16 || plain.dtype == ACL_BF16, "mmWeightRef has dtype {}",
          static_cast<int>(plain.dtype));
  require(weight->format == ACL_FORMAT_ND, "mmWeightRef has format {}, expected {}", static_cast<int>(weight->format),
          static_cast<int>(ACL_FORMAT_ND));
  if (plain.elements() == 0) return;
  const size_t most = int8 ? kMostAxes : kMostAxesOfFloats;
  require(plain.rank >= 2 && plain.shape().size() <= most, "mmWeightRef has {} dimensions, expected 2 to {}",
          plain.rank, most);
  // What the device makes of other views is not said.
  require(plain.contiguous() && plain.offset == 0, "mmWeightRef is a view that is not contiguous, or has an offset");
  const int64_t count = elements_in_blocks(plain.shape(), plain.dtype);
  TensorArgument blocked = plan.scratch({count}, plain.dtype);
  blocked.format = ACL_FORMAT_FRACTAL_NZ;
  add_to_blocks(plan, plain, blocked);
  blocked.format = ACL_FORMAT_ND;
  TensorArgument whole = reshaped(plain, {count});
  whole.storage_elements = count;
  plan.launch(view_copy_kernel(), {blocked}, {whole}, 0);
  weight->storage = blocked_shape(plain.shape(), plain.dtype);
  weight->format = ACL_FORMAT_FRACTAL_NZ;
}

/// Runs `calculate` as a call of the interface that has one phase; it writes `answer`.
template <typename Calculate>
aclnnStatus one_phase(const char* name, const Given& given, const uint64_t* answer, Calculate calculate) {
  OperatorCall call(name, given);
  if (call.fault() != ACLNN_SUCCESS) return call.end(call.fault(), "injected fault");
  try {
    calculate();
    call.answer("weightTensorSize", *answer);
    return call.end(ACLNN_SUCCESS, {});
  } catch (const OperatorError& error) {
    return call.end(error.status(), error.what());
  }
}

void calculate_size(const aclIntArray* shape, aclDataType dtype, size_t most, uint64_t* size) {
  require_pointer(shape, "tensorShape");
  require_pointer(size, "weightTensorSize");
  const std::vector<int64_t>& sizes = shape->values;
  require(sizes.size() >= 2 && sizes.size() <= most, "tensorShape has {} dimensions, expected 2 to {}", sizes.size(),
          most);
  *size = static_cast<uint64_t>(elements_in_blocks(sizes, dtype));
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnTransMatmulWeightGetWorkspaceSize(aclTensor* mmWeightRef, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  return phase_one("aclnnTransMatmulWeight", EMULATOR_GIVEN(mmWeightRef), workspaceSize, executor,
                   [&](Plan& plan) { build_weight(plan, mmWeightRef); });
}

aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray* tensorShape, uint64_t* weightTensorSize) {
  return one_phase("aclnnCalculateMatmulWeightSize", EMULATOR_GIVEN(tensorShape), weightTensorSize,
                   [&] { calculate_size(tensorShape, ACL_FLOAT16, kMostAxesOfFloats, weightTensorSize); });
}

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray* tensorShape, aclDataType dataType,
                                             uint64_t* weightTensorSize) {
  return one_phase("aclnnCalculateMatmulWeightSizeV2", EMULATOR_GIVEN(tensorShape, dataType), weightTensorSize, [&] {
    const bool known = dataType == ACL_INT8 || dataType == ACL_FLOAT16 || dataType == ACL_BF16;
    require(known, "dataType is {}", static_cast<int>(dataType));
    calculate_size(tensorShape, dataType, kMostAxes, weightTensorSize);
    for (const int64_t size : tensorShape->values) require(size > 0, "tensorShape has the size {}", size);
  });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnTransMatmulWeight)
