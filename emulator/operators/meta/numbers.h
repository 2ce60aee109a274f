// The number formats of tensors: their sizes, and what they are in float32.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "device/ascend/interface/acl_types.h"

namespace reprise::emulator {

/// Bytes of an element; 0 for what no tensor here holds.
constexpr size_t size_of(aclDataType dtype) {
  switch (dtype) {
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
      return 4;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
      return 1;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
      return 8;
    default:
      return 0;
  }
}

/// The floating-point formats that kernels compute with.
constexpr bool is_float(aclDataType dtype) { return dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16; }

inline float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays one.
inline uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40U;
  return static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

inline float float16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU;
  const uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float small = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -small : small;
}

/// Rounds to nearest, ties to even; what is too large becomes infinite.
inline uint16_t float_to_float16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);
  if (magnitude < 0x38800000U) {
    // Denormal: adding half a unit of 2^-24 in float32 rounds as wanted.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
  }
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

/// Rounds to nearest, ties to even, and saturates; 0 for NaN.
inline int8_t float_to_int8(float value) {
  if (std::isnan(value)) return 0;
  const float clamped = value < -128.0F ? -128.0F : value > 127.0F ? 127.0F : value;
  return static_cast<int8_t>(std::nearbyint(clamped));
}

/// `value` as an element of this format would hold it.
inline float rounded_to(aclDataType dtype, float value) {
  if (dtype == ACL_BF16) return bfloat16_to_float(float_to_bfloat16(value));
  if (dtype == ACL_FLOAT16) return float16_to_float(float_to_float16(value));
  return value;
}

}  // namespace reprise::emulator
