// aclnnCausalConv1d: a convolution along each sequence that keeps its last rows, with the host's lists of where the
// sequences are.
#include <algorithm>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"
#include "emulator/operators/silu.h"

namespace reprise::emulator {
namespace {

constexpr int64_t kPadding = -1;

/// The tail holds for each sequence its first row, the row behind its last one, its slot (kPadding: none) and whether
/// it has a state.
struct ConvolutionParameters {
  int64_t sequences = 0;
  int64_t slots = 0;
  int64_t width = 0;
  int32_t activation = 0;
  int32_t reserved = 0;
};

struct Sequence {
  int64_t begin, end, slot, has_state;
};

/// The tensors: x, weight [width, channels], bias, states [slots, width - 1, channels] and out.
class Convolution {
 public:
  explicit Convolution(const KernelCall<ConvolutionParameters>& call)
      : call_(call), weight_(read_all(call[1])), bias_(read_all(call[2])), channels_(call[4]->columns()) {}

  void run(const Sequence& sequence) {
    const auto& parameters = call_.parameters();
    const int64_t kept = parameters.width - 1;
    const int64_t rows = sequence.end - sequence.begin;
    const HostTensor& states = call_[3];
    std::vector<float> history(static_cast<size_t>((kept + rows) * channels_), 0.0F);
    const int64_t state = sequence.slot * kept * channels_;
    if (sequence.has_state != 0) read_row(states, state, kept * channels_, history.data());
    read_row(call_[0], sequence.begin * channels_, rows * channels_, history.data() + kept * channels_);
    std::vector<float> out(static_cast<size_t>(channels_));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t channel = 0; channel < channels_; ++channel) {
        float sum = bias_.empty() ? 0.0F : bias_[static_cast<size_t>(channel)];
        for (int64_t w = 0; w <= kept; ++w) {
          sum += weight_[static_cast<size_t>(w * channels_ + channel)] *
                 history[static_cast<size_t>((row + w) * channels_ + channel)];
        }
        out[static_cast<size_t>(channel)] = parameters.activation != 0 ? silu(sum) : sum;
      }
      write_row(call_[4], (sequence.begin + row) * channels_, channels_, out.data());
    }
    write_row(states, state, kept * channels_, history.data() + rows * channels_);
  }

 private:
  const KernelCall<ConvolutionParameters>& call_;
  std::vector<float> weight_, bias_;
  int64_t channels_;
};

bool run_convolution(const KernelCall<ConvolutionParameters>& call) {
  Convolution convolution(call);
  for (int64_t i = 0; i < call.parameters().sequences; ++i) {
    const int64_t* values = call.tail().data() + 4 * i;
    const Sequence sequence{values[0], values[1], values[2], values[3]};
    if (sequence.slot != kPadding && sequence.end > sequence.begin) convolution.run(sequence);
  }
  return true;
}

constexpr Kernel kCausalConv1d = make_kernel<ConvolutionParameters, run_convolution>("CausalConv1d");

std::vector<int64_t> sequences_of(const aclIntArray* starts, const aclIntArray* slots, const aclIntArray* modes,
                                  int64_t pad_slot, int64_t rows, int64_t slot_count) {
  for (const aclIntArray* list : {starts, slots, modes}) require_live(list, "a list");
  require(starts->values.size() >= 2, "queryStartLoc has {} elements, expected at least 2", starts->values.size());
  const size_t count = starts->values.size() - 1;
  require(slots == nullptr || slots->values.size() == count, "cacheIndices does not have {} elements", count);
  require(modes == nullptr || modes->values.size() == count, "initialStateMode does not have {} elements", count);
  std::vector<int64_t> result;
  for (size_t i = 0; i < count; ++i) {
    const int64_t begin = starts->values[i];
    const int64_t end = starts->values[i + 1];
    require(begin >= 0 && begin <= end && end <= rows, "queryStartLoc goes from {} to {} of {} rows", begin, end, rows);
    int64_t slot = slots == nullptr ? static_cast<int64_t>(i) : slots->values[i];
    if (slot == pad_slot) slot = kPadding;
    require(slot == kPadding || (slot >= 0 && slot < slot_count), "a cache index is {}, expected less than {}", slot,
            slot_count);
    result.insert(result.end(), {begin, end, slot, modes == nullptr ? 0 : modes->values[i]});
  }
  return result;
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" aclnnStatus aclnnCausalConv1dGetWorkspaceSize(
    const aclTensor* x, const aclTensor* weight, const aclTensor* biasOptional, const aclTensor* convStates,
    const aclIntArray* queryStartLocOptional, const aclIntArray* cacheIndicesOptional,
    const aclIntArray* initialStateModeOptional, const aclIntArray* numAcceptedTokensOptional, int64_t activationMode,
    int64_t padSlotId, int64_t runMode, const aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one(
      "aclnnCausalConv1d",
      EMULATOR_GIVEN(x, weight, biasOptional, convStates, queryStartLocOptional, cacheIndicesOptional,
                     initialStateModeOptional, numAcceptedTokensOptional, activationMode, padSlotId, runMode, out),
      workspaceSize, executor, [&](Plan& plan) {
        const TensorArgument from = plan.input(x, "x");
        const TensorArgument taps = plan.input(weight, "weight");
        const TensorArgument bias = plan.optional_input(biasOptional);
        const TensorArgument states = plan.input(convStates, "convStates");
        const TensorArgument to = plan.output(out, "out");
        require_pointer(queryStartLocOptional, "queryStartLoc");
        require(numAcceptedTokensOptional == nullptr || numAcceptedTokensOptional->values.empty(),
                "numAcceptedTokens is not supported");
        require(activationMode == 0 || activationMode == 1, "activationMode is {}, expected 0 or 1", activationMode);
        require(runMode == 0, "runMode is {}, expected 0", runMode);
        require(from.rank == 2 && taps.rank == 2 && states.rank == 3 && to.rank == 2, "a tensor has the wrong rank");
        for (const TensorArgument* tensor : {&taps, &states, &to}) {
          require(is_float(from.dtype) && tensor->dtype == from.dtype && tensor->columns() == from.columns(),
                  "weight, convStates and out have other dtypes or channels than x");
        }
        require(!bias.defined() || (bias.dtype == from.dtype && bias.elements() == from.columns()),
                "the bias does not fit");
        require(states.dims[1] == taps.dims[0] - 1 && states.contiguous() && to.dims[0] == from.dims[0],
                "convStates or out has the wrong shape");
        const std::vector<int64_t> sequences =
            sequences_of(queryStartLocOptional, cacheIndicesOptional, initialStateModeOptional, padSlotId, from.dims[0],
                         states.dims[0]);
        const ConvolutionParameters parameters{.sequences = static_cast<int64_t>(sequences.size() / 4),
                                               .slots = states.dims[0],
                                               .width = taps.dims[0],
                                               .activation = activationMode == 1 ? 1 : 0};
        plan.launch(kCausalConv1d, {plan.contiguous(from), plan.contiguous(taps), plan.contiguous(bias), states},
                    {plan.staged(to)}, parameters, sequences, parameters.sequences);
      });
}
EMULATOR_PHASE_TWO(aclnnCausalConv1d)
