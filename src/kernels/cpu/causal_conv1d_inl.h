// Compiled once for each instruction set, see foreach_instruction_set.h.

#ifndef REPRISE_KERNELS_CPU_CONV_CHANNELS
#define REPRISE_KERNELS_CPU_CONV_CHANNELS
namespace reprise::kernels::cpu {
/// Channels of one tile.
inline constexpr int64_t kConvChannels = 64;
/// What a sequence is, in the tail.
enum ConvSequence : int32_t { kConvContinued = 0, kConvFresh = 1, kConvPadding = 2 };
}  // namespace reprise::kernels::cpu
#endif

namespace reprise::kernels::cpu::REPRISE_ISA {

/// All rows of one sequence for up to 16 channels.
template <typename T>
REPRISE_INLINE void convolve_channels(const CausalConv1dArguments& a, int64_t begin, int64_t end, T* state, bool fresh,
                                      int64_t channel, int64_t count) {
  const int64_t past = a.width - 1;
  V taps[kMaxConvWidth];
  V window[kMaxConvWidth];
  for (int64_t j = 0; j < a.width; ++j) {
    float column[16] = {};
    for (int64_t c = 0; c < count; ++c) column[c] = a.weight[(channel + c) * a.width + j];
    taps[j] = load(column);
    window[j] = zero();
    if (j < past && state != nullptr && !fresh) window[j] = load_up_to(state + j * a.channels + channel, count);
  }
  const V bias = a.bias != nullptr ? load_up_to(a.bias + channel, count) : zero();
  for (int64_t row = begin; row < end; ++row) {
    window[past] = load_up_to(static_cast<const T*>(a.x) + row * a.x_row_stride + channel, count);
    V sum = bias;
    for (int64_t j = 0; j < a.width; ++j) sum = fma(taps[j], window[j], sum);
    store_up_to(static_cast<T*>(a.y) + row * a.y_row_stride + channel, sum, count);
    for (int64_t j = 0; j < past; ++j) window[j] = window[j + 1];
  }
  if (state == nullptr) return;
  for (int64_t j = 0; j < past; ++j) store_up_to(state + j * a.channels + channel, window[j], count);
}

/// Tile t: sequence t / pieces, channels of piece t % pieces.
template <typename T>
void causal_conv1d(const void* arguments, int64_t first, int64_t last) {
  const CausalConv1dArguments& a = *static_cast<const CausalConv1dArguments*>(arguments);
  const int32_t* starts = tail_of<CausalConv1dArguments>(arguments);
  const int32_t* kinds = starts + a.sequences + 1;
  const int64_t pieces = (a.channels + kConvChannels - 1) / kConvChannels;
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t sequence = tile / pieces;
    if (starts[sequence] == starts[sequence + 1]) continue;
    const int64_t slot = a.state_slots[sequence];
    T* state = nullptr;
    if (slot >= 0 && slot < a.slots) state = static_cast<T*>(a.state) + slot * (a.width - 1) * a.channels;
    const int64_t end = smaller((tile % pieces + 1) * kConvChannels, a.channels);
    const int64_t begin = tile % pieces * kConvChannels;
    if (kinds[sequence] == kConvPadding) {
      for (int64_t row = starts[sequence]; row < starts[sequence + 1]; ++row) {
        memset(static_cast<T*>(a.y) + row * a.y_row_stride + begin, 0, static_cast<size_t>(end - begin) * sizeof(T));
      }
      continue;
    }
    for (int64_t channel = begin; channel < end; channel += 16) {
      convolve_channels(a, starts[sequence], starts[sequence + 1], state, kinds[sequence] == kConvFresh, channel,
                        smaller(16, end - channel));
    }
  }
}

constexpr CausalConv1dKernels kCausalConv1dKernels = {{causal_conv1d<float>, causal_conv1d<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
