#include "load/convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace reprise::load {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

/// Elements of a block: small enough for the first-level cache.
constexpr size_t kBlock = 2048;

/// Written without branches and without denormal arithmetic, so that it vectorises and holds whatever the
/// floating-point mode of the calling thread is.
inline float float_from_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7FFFu) << 13;
  const uint32_t exponent = magnitude & 0x0F800000u;
  // Rebias the exponent from 15 to 127; infinities and NaN (exponent 31) go all the way to 255.
  const uint32_t rebias = exponent == 0x0F800000u ? (255u - 31u) << 23 : (127u - 15u) << 23;
  const uint32_t normal = magnitude + rebias;
  // A subnormal is mantissa * 2^-24: put it behind the leading one of 2^-14 and take that away again.
  const float subnormal = std::bit_cast<float>(magnitude + (113u << 23)) - std::bit_cast<float>(113u << 23);
  const uint32_t bits = exponent == 0 ? std::bit_cast<uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(bits | sign);
}

void half_to_float(const uint16_t* source, float* target, size_t count) {
  for (size_t i = 0; i < count; ++i) target[i] = float_from_half(source[i]);
}

void bfloat16_to_float(const uint16_t* source, float* target, size_t count) {
  for (size_t i = 0; i < count; ++i) target[i] = to_float(BFloat16{source[i]});
}

void float_to_bfloat16(const float* source, BFloat16* target, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    // As to_bfloat16, with a select instead of a branch.
    const uint32_t bits = std::bit_cast<uint32_t>(source[i]);
    const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40u;
    target[i].bits = static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
  }
}

/// Reads `count` elements of any alignment as float32.
void load_block(DType from, const std::byte* source, float* target, size_t count) {
  if (from == DType::kF32) {
    std::memcpy(target, source, count * sizeof(float));
    return;
  }
  std::array<uint16_t, kBlock> raw;
  std::memcpy(raw.data(), source, count * sizeof(uint16_t));
  if (from == DType::kF16) {
    half_to_float(raw.data(), target, count);
  } else {
    bfloat16_to_float(raw.data(), target, count);
  }
}

void check(DType from, size_t source_bytes, size_t elements) {
  if (from != DType::kF32 && from != DType::kBF16 && from != DType::kF16) {
    throw Error(ErrorCode::kInvalidArgument, "{} elements cannot be read as numbers with a fraction", name_of(from));
  }
  if (source_bytes / size_of(from) != elements || source_bytes % size_of(from) != 0) {
    throw Error(ErrorCode::kInvalidArgument, "{} bytes do not hold {} {} elements", source_bytes, elements,
                name_of(from));
  }
}

}  // namespace

void convert(DType from, std::span<const std::byte> source, DType to, std::span<std::byte> target) {
  if (to != DType::kF32 && to != DType::kBF16) {
    throw Error(ErrorCode::kInvalidArgument, "weights are converted to float32 or bfloat16, not to {}", name_of(to));
  }
  if (target.size() % size_of(to) != 0) {
    throw Error(ErrorCode::kInvalidArgument, "{} bytes are not a whole number of {} elements", target.size(),
                name_of(to));
  }
  const size_t elements = target.size() / size_of(to);
  check(from, source.size(), elements);
  if (from == to) {
    if (elements > 0) std::memcpy(target.data(), source.data(), source.size());
    return;
  }
  std::array<float, kBlock> values;
  std::array<BFloat16, kBlock> rounded;
  for (size_t done = 0; done < elements; done += kBlock) {
    const size_t count = std::min(kBlock, elements - done);
    load_block(from, source.data() + done * size_of(from), values.data(), count);
    std::byte* out = target.data() + done * size_of(to);
    if (to == DType::kF32) {
      std::memcpy(out, values.data(), count * sizeof(float));
    } else {
      float_to_bfloat16(values.data(), rounded.data(), count);
      std::memcpy(out, rounded.data(), count * sizeof(BFloat16));
    }
  }
}

void convert_to_float(DType from, std::span<const std::byte> source, std::span<float> target) {
  convert(from, source, DType::kF32, std::as_writable_bytes(target));
}

void convert_to_bfloat16(DType from, std::span<const std::byte> source, std::span<BFloat16> target) {
  convert(from, source, DType::kBF16, std::as_writable_bytes(target));
}

}  // namespace reprise::load
