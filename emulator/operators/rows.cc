#include "emulator/operators/rows.h"

#include <algorithm>
#include <limits>

namespace reprise::emulator {
namespace {

template <typename T>
void widen(const void* from, int64_t count, float* to) {
  const auto* values = static_cast<const T*>(from);
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(values[i]);
}

template <typename T>
T saturated(float value) {
  if (std::isnan(value)) return 0;
  constexpr auto kLowest = static_cast<float>(std::numeric_limits<T>::min());
  // The largest value itself may not be a float; what is not below the next power of two saturates.
  constexpr float kAbove = static_cast<float>(std::numeric_limits<T>::max() / 2 + 1) * 2.0F;
  if (value <= kLowest) return std::numeric_limits<T>::min();
  return value >= kAbove ? std::numeric_limits<T>::max() : static_cast<T>(value);
}

template <typename T>
void narrow(const float* from, int64_t count, void* to) {
  auto* values = static_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i) values[i] = saturated<T>(from[i]);
}

/// Calls function<T>() with the C++ type of an integer format.
template <typename Function>
auto with_integer_type(aclDataType dtype, Function function) {
  switch (dtype) {
    case ACL_INT8:
      return function.template operator()<int8_t>();
    case ACL_INT16:
      return function.template operator()<int16_t>();
    case ACL_UINT16:
      return function.template operator()<uint16_t>();
    case ACL_INT32:
      return function.template operator()<int32_t>();
    case ACL_UINT32:
      return function.template operator()<uint32_t>();
    case ACL_INT64:
      return function.template operator()<int64_t>();
    case ACL_UINT64:
      return function.template operator()<uint64_t>();
    default:
      return function.template operator()<uint8_t>();
  }
}

}  // namespace

void to_floats(const void* from, aclDataType dtype, int64_t count, float* to) {
  if (count == 0) return;
  switch (dtype) {
    case ACL_FLOAT:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case ACL_BF16: {
      const auto* values = static_cast<const uint16_t*>(from);
      for (int64_t i = 0; i < count; ++i) to[i] = bfloat16_to_float(values[i]);
      return;
    }
    case ACL_FLOAT16: {
      const auto* values = static_cast<const uint16_t*>(from);
      for (int64_t i = 0; i < count; ++i) to[i] = float16_to_float(values[i]);
      return;
    }
    case ACL_DOUBLE:
      widen<double>(from, count, to);
      return;
    default:
      with_integer_type(dtype, [&]<typename T>() { widen<T>(from, count, to); });
  }
}

void from_floats(const float* from, int64_t count, aclDataType dtype, void* to) {
  if (count == 0) return;
  switch (dtype) {
    case ACL_FLOAT:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case ACL_BF16: {
      auto* values = static_cast<uint16_t*>(to);
      for (int64_t i = 0; i < count; ++i) values[i] = float_to_bfloat16(from[i]);
      return;
    }
    case ACL_FLOAT16: {
      auto* values = static_cast<uint16_t*>(to);
      for (int64_t i = 0; i < count; ++i) values[i] = float_to_float16(from[i]);
      return;
    }
    case ACL_DOUBLE: {
      auto* values = static_cast<double*>(to);
      for (int64_t i = 0; i < count; ++i) values[i] = static_cast<double>(from[i]);
      return;
    }
    case ACL_BOOL: {
      auto* values = static_cast<uint8_t*>(to);
      for (int64_t i = 0; i < count; ++i) values[i] = from[i] != 0.0F ? 1 : 0;
      return;
    }
    default:
      with_integer_type(dtype, [&]<typename T>() { narrow<T>(from, count, to); });
  }
}

int64_t integer_at(const void* from, aclDataType dtype, int64_t index) {
  return with_integer_type(dtype,
                           [&]<typename T>() { return static_cast<int64_t>(static_cast<const T*>(from)[index]); });
}

void set_integer(void* to, aclDataType dtype, int64_t index, int64_t value) {
  if (dtype == ACL_BOOL) value = value != 0 ? 1 : 0;
  with_integer_type(dtype, [&]<typename T>() { static_cast<T*>(to)[index] = static_cast<T>(value); });
}

TensorArgument broadcast_to(const TensorArgument& from, const TensorArgument& to) {
  TensorArgument seen = from;
  seen.rank = to.rank;
  for (int32_t axis = 0; axis < to.rank; ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int32_t own = axis - (to.rank - from.rank);
    const bool repeated = own < 0 || from.dims[static_cast<size_t>(own)] == 1;
    seen.dims[i] = to.dims[i];
    seen.strides[i] = repeated ? 0 : from.strides[static_cast<size_t>(own)];
  }
  return seen;
}

void round_all(float* values, int64_t count, aclDataType dtype) {
  if (dtype == ACL_BF16) {
    for (int64_t i = 0; i < count; ++i) values[i] = bfloat16_to_float(float_to_bfloat16(values[i]));
  } else if (dtype == ACL_FLOAT16) {
    for (int64_t i = 0; i < count; ++i) values[i] = float16_to_float(float_to_float16(values[i]));
  }
}

}  // namespace reprise::emulator
