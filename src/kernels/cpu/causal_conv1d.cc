#include "kernels/cpu/causal_conv1d.h"

#include "base/error.h"

#define REPRISE_KERNELS "kernels/cpu/causal_conv1d_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

CausalConv1dPlan plan_causal_conv1d(std::span<const int32_t> query_lengths, std::span<const int32_t> past_lengths,
                                    int64_t channels, std::span<int32_t> tail) {
  const size_t sequences = query_lengths.size();
  const int64_t tail_size = causal_conv1d_tail_size(static_cast<int64_t>(sequences));
  REPRISE_CHECK(past_lengths.size() == sequences);
  REPRISE_CHECK(static_cast<int64_t>(tail.size()) >= tail_size);
  int32_t start = 0;
  for (size_t i = 0; i < sequences; ++i) {
    REPRISE_CHECK(query_lengths[i] >= 0);
    tail[i] = start;
    tail[sequences + 1 + i] = past_lengths[i] < 0 ? kConvPadding : past_lengths[i] == 0 ? kConvFresh : kConvContinued;
    start += query_lengths[i];
  }
  tail[sequences] = start;
  const int64_t pieces = (channels + kConvChannels - 1) / kConvChannels;
  return {tail_size, static_cast<int64_t>(sequences) * pieces};
}

const CausalConv1dKernels& causal_conv1d_kernels(InstructionSet set) {
  return REPRISE_SELECT(set, kCausalConv1dKernels);
}

}  // namespace reprise::kernels::cpu
