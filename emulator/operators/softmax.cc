// aclnnSoftmax.
#include <algorithm>
#include <vector>

#include "emulator/operators/axis.h"
#include "emulator/operators/choice.h"
#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

bool run_softmax(const KernelCall<AxisSplit>& call) {
  const AxisSplit& split = call.parameters();
  std::vector<float> values = read_all(call[0]);
  std::vector<float> line(static_cast<size_t>(split.size));
  for (int64_t i = 0; i < split.lines(); ++i) {
    float* first = values.data() + split.first_of(i);
    for (int64_t j = 0; j < split.size; ++j) line[static_cast<size_t>(j)] = first[j * split.inner];
    softmax(line);
    for (int64_t j = 0; j < split.size; ++j) first[j * split.inner] = line[static_cast<size_t>(j)];
  }
  write_row(call[1], 0, call[1]->elements(), values.data());
  return true;
}

constexpr Kernel kSoftmax = make_kernel<AxisSplit, run_softmax>("SoftmaxV2");

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" aclnnStatus aclnnSoftmaxGetWorkspaceSize(const aclTensor* self, int64_t dim, aclTensor* out,
                                                    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnSoftmax", EMULATOR_GIVEN(self, dim, out), workspaceSize, executor, [&](Plan& plan) {
    const TensorArgument x = plan.input(self, "self");
    const TensorArgument y = plan.output(out, "out");
    require(is_float(x.dtype) && is_float(y.dtype), "the dtypes are {} and {}, expected floating point",
            static_cast<int>(x.dtype), static_cast<int>(y.dtype));
    const AxisSplit split = split_at(x, axis_of(x, dim));
    require(std::ranges::equal(x.shape(), y.shape()), "out has another shape than self");
    // Rounded to the dtype of self, then converted.
    plan.launch(kSoftmax, {plan.contiguous(x)}, {plan.staged(y, x.dtype)}, split, {}, split.lines());
  });
}
EMULATOR_PHASE_TWO(aclnnSoftmax)
