#pragma once

#include <span>

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"

namespace reprise::kernels::cpu {

/// The widest filter.
inline constexpr int64_t kMaxConvWidth = 8;

/// Depthwise causal convolution of sequences that lie one after the other in x:
///   y[t, c] = bias[c] + sum over j < W of weight[c, j] * x[t - (W - 1) + j, c],  j ascending, in float32,
/// rounded once. Inputs before the sequence's first row here come from its state [W - 1, channels] (the last inputs of
/// its earlier rows; zeros for a fresh sequence), which then is replaced by the last W - 1 inputs. A sequence whose
/// state slot is outside [0, slots) starts from zeros and writes no state. Rows after the last sequence are not
/// written. y may be x. The tail comes from plan_causal_conv1d().
struct CausalConv1dArguments {
  const void* x;               ///< [tokens, channels]
  const float* weight;         ///< [channels, width]
  const float* bias;           ///< [channels], or null
  const int32_t* state_slots;  ///< [sequences]
  void* state;                 ///< [slots, width - 1, channels], elements as x
  void* y;                     ///< [tokens, channels]
  int64_t sequences;
  int64_t channels;
  int64_t width;  ///< 1 to kMaxConvWidth
  int64_t slots;
  int64_t x_row_stride;
  int64_t y_row_stride;
};

struct CausalConv1dPlan {
  int64_t tail_size;  ///< values written to the tail
  int64_t tiles;
};
/// Values of the tail for this number of sequences.
constexpr int64_t causal_conv1d_tail_size(int64_t sequences) { return 2 * sequences + 1; }
/// Turns the number of rows of each sequence now, and of the rows that it had before (0: fresh), into the tail.
/// Negative past lengths mark padding: its rows get zeros, and no state is touched.
CausalConv1dPlan plan_causal_conv1d(std::span<const int32_t> query_lengths, std::span<const int32_t> past_lengths,
                                    int64_t channels, std::span<int32_t> tail);

struct CausalConv1dKernels {
  KernelFunction causal_conv1d[2];  ///< [element of x, y and the state]
};
const CausalConv1dKernels& causal_conv1d_kernels(InstructionSet set);

}  // namespace reprise::kernels::cpu
