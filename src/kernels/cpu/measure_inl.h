// Compiled once for each instruction set, see foreach_instruction_set.h.

namespace reprise::kernels::cpu::REPRISE_ISA {

/// 64 bytes, in as many registers as the instruction set needs; at any address of a word.
typedef uint32_t Words64 __attribute__((vector_size(64), aligned(4), may_alias));

/// Four loads at a time into four sums: adding never waits for the one before, so that only memory limits.
REPRISE_INLINE uint32_t sum_of_words(const uint32_t* words, int64_t count) {
  constexpr int64_t kWidth = 16;
  Words64 sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kWidth <= count; i += 4 * kWidth) {
    for (int64_t part = 0; part < 4; ++part) {
      sums[part] += *reinterpret_cast<const Words64*>(words + i + part * kWidth);
    }
  }
  const Words64 all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  uint32_t sum = 0;
  for (int64_t lane = 0; lane < kWidth; ++lane) sum += all[lane];
  for (; i < count; ++i) sum += words[i];
  return sum;
}

inline void read_all(const void* arguments, int64_t first, int64_t last) {
  const ReadAllArguments& args = *static_cast<const ReadAllArguments*>(arguments);
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t begin = tile * args.block;
    args.sums[tile] = sum_of_words(args.words + begin, smaller(args.block, args.count - begin));
  }
}

constexpr MeasureKernels kMeasureKernels = {{read_all}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
