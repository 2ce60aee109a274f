// V for any architecture: four vectors of four floats in the compiler's own vector extension. The same functions as in
// vector_avx2_inl.h and vector_avx512_inl.h; see there for what differs. Included by foreach_instruction_set.h.

namespace reprise::kernels::cpu::REPRISE_ISA {

typedef float Float4 __attribute__((vector_size(16)));
typedef uint32_t Uint4 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));
typedef uint16_t Short4 __attribute__((vector_size(8)));

/// Accumulators of type V that fit into the registers beside operands.
constexpr int kRegisterBudget = 2;
/// Rows that a register tile takes at most.
constexpr int kMaxTileRows = 2;

/// 16 floats.
struct V {
  Float4 part[4];
};

REPRISE_INLINE V set(float value) {
  const Float4 all = {value, value, value, value};
  return {{all, all, all, all}};
}
REPRISE_INLINE V zero() { return set(0.0f); }

REPRISE_INLINE V load(const float* from) {
  V result;
  memcpy(&result, from, sizeof(V));
  return result;
}
REPRISE_INLINE void store(float* to, V value) { memcpy(to, &value, sizeof(V)); }

REPRISE_INLINE V load(const Bf16* from) {
  V result;
  for (int i = 0; i < 4; ++i) {
    Short4 narrow;
    memcpy(&narrow, from + 4 * i, sizeof(narrow));
    result.part[i] = reinterpret_cast<Float4>(__builtin_convertvector(narrow, Uint4) << 16);
  }
  return result;
}
/// Rounds to nearest even; a NaN stays a (quiet) NaN.
REPRISE_INLINE void store(Bf16* to, V value) {
  for (int i = 0; i < 4; ++i) {
    const Uint4 bits = reinterpret_cast<Uint4>(value.part[i]);
    const Uint4 rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const Uint4 quiet = (bits >> 16) | 0x40u;
    const Uint4 is_nan = reinterpret_cast<Uint4>(value.part[i] != value.part[i]);
    const Short4 narrow = __builtin_convertvector((rounded & ~is_nan) | (quiet & is_nan), Short4);
    memcpy(to + 4 * i, &narrow, sizeof(narrow));
  }
}

REPRISE_INLINE float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7FFFu;
  uint32_t bits;
  if (magnitude >= 0x7C00u) {
    bits = 0x7F800000u | (magnitude & 0x3FFu) << 13 | ((magnitude & 0x3FFu) != 0 ? 0x400000u : 0u);
  } else if (magnitude >= 0x400u) {
    bits = (magnitude << 13) + (112u << 23);
  } else {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    memcpy(&bits, &value, sizeof(bits));
  }
  bits |= sign;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}
REPRISE_INLINE V load(const F16* from) {
  V result;
  for (int i = 0; i < 16; ++i) result.part[i / 4][i % 4] = half_to_float(from[i].bits);
  return result;
}

REPRISE_INLINE V load(const int8_t* from) {
  V result;
  for (int i = 0; i < 16; ++i) result.part[i / 4][i % 4] = static_cast<float>(from[i]);
  return result;
}

/// 16 pairs of bfloat16: the first ones and the second ones of each pair.
REPRISE_INLINE void load_pairs(const Bf16* from, V& first, V& second) {
  for (int i = 0; i < 4; ++i) {
    Uint4 pairs;
    memcpy(&pairs, from + 8 * i, sizeof(pairs));
    if constexpr (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) pairs = (pairs << 16) | (pairs >> 16);
    first.part[i] = reinterpret_cast<Float4>(pairs << 16);
    second.part[i] = reinterpret_cast<Float4>(pairs & 0xFFFF0000u);
  }
}

/// Both of a pair of bfloat16, each in all lanes.
REPRISE_INLINE void set_pair(const Bf16* from, V& first, V& second) {
  const auto value_of = [](Bf16 narrow) {
    const uint32_t bits = static_cast<uint32_t>(narrow.bits) << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
  };
  first = set(value_of(from[0]));
  second = set(value_of(from[1]));
}

REPRISE_INLINE V operator+(V a, V b) {
  return {{a.part[0] + b.part[0], a.part[1] + b.part[1], a.part[2] + b.part[2], a.part[3] + b.part[3]}};
}
REPRISE_INLINE V operator-(V a, V b) {
  return {{a.part[0] - b.part[0], a.part[1] - b.part[1], a.part[2] - b.part[2], a.part[3] - b.part[3]}};
}
REPRISE_INLINE V operator*(V a, V b) {
  return {{a.part[0] * b.part[0], a.part[1] * b.part[1], a.part[2] * b.part[2], a.part[3] * b.part[3]}};
}
REPRISE_INLINE V operator/(V a, V b) {
  return {{a.part[0] / b.part[0], a.part[1] / b.part[1], a.part[2] / b.part[2], a.part[3] / b.part[3]}};
}
/// a * b + c. Here with two roundings, elsewhere with one.
REPRISE_INLINE V fma(V a, V b, V c) { return a * b + c; }
/// The larger one; b where one of them is NaN.
REPRISE_INLINE V max(V a, V b) {
  V result;
  for (int i = 0; i < 4; ++i) result.part[i] = a.part[i] > b.part[i] ? a.part[i] : b.part[i];
  return result;
}
/// The smaller one; b where one of them is NaN.
REPRISE_INLINE V min(V a, V b) {
  V result;
  for (int i = 0; i < 4; ++i) result.part[i] = a.part[i] < b.part[i] ? a.part[i] : b.part[i];
  return result;
}
/// The first `count` lanes of a, `other` in the rest; any count.
REPRISE_INLINE V keep_first(V a, int64_t count, float other) {
  const int32_t limit = count < 0 ? 0 : count > 16 ? 16 : static_cast<int32_t>(count);
  const V fill = set(other);
  V result;
  for (int i = 0; i < 4; ++i) {
    const Int4 lane = {4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3};
    result.part[i] = lane < limit ? a.part[i] : fill.part[i];
  }
  return result;
}
/// The sum of the lanes, in a fixed order.
REPRISE_INLINE float reduce_add(V a) {
  const Float4 four = (a.part[0] + a.part[2]) + (a.part[1] + a.part[3]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
REPRISE_INLINE float reduce_max(V a) {
  float largest = a.part[0][0];
  for (int i = 1; i < 16; ++i) {
    const float lane = a.part[i / 4][i % 4];
    largest = largest > lane ? largest : lane;
  }
  return largest;
}
/// Lane i: the sum of rows[i], in a fixed order.
REPRISE_INLINE V reduce_add_rows(const V (&rows)[16]) {
  V result;
  for (int i = 0; i < 16; ++i) result.part[i / 4][i % 4] = reduce_add(rows[i]);
  return result;
}
/// value * 2^n for n = bits(shifted) - bits(magic), the integer that adding `magic` (1.5 * 2^23) rounds to.
REPRISE_INLINE V scale_by_power(V value, V shifted, float magic) {
  int32_t magic_bits;
  memcpy(&magic_bits, &magic, sizeof(magic_bits));
  V result;
  for (int i = 0; i < 4; ++i) {
    const Int4 n = reinterpret_cast<Int4>(reinterpret_cast<Uint4>(shifted.part[i]) - static_cast<uint32_t>(magic_bits));
    const Int4 half = n >> 1;
    const Float4 first = reinterpret_cast<Float4>(reinterpret_cast<Uint4>(half + 127) << 23);
    const Float4 second =
        reinterpret_cast<Float4>((reinterpret_cast<Uint4>(n) - reinterpret_cast<Uint4>(half) + 127u) << 23);
    result.part[i] = value.part[i] * first * second;
  }
  return result;
}

/// The first `count` (1 to 16) elements; zeros in the other lanes, whose memory is not touched.
template <typename T>
REPRISE_INLINE V load_first(const T* from, int64_t count) {
  T buffer[16] = {};
  memcpy(buffer, from, static_cast<size_t>(count) * sizeof(T));
  return load(buffer);
}
template <typename T>
REPRISE_INLINE void store_first(T* to, V value, int64_t count) {
  T buffer[16];
  store(buffer, value);
  memcpy(to, buffer, static_cast<size_t>(count) * sizeof(T));
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA

#include "kernels/cpu/math_inl.h"
