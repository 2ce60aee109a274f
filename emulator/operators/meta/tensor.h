// What the opaque types of the public interface are.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/operators/exported.h"

struct aclTensor {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;  ///< in elements, as many as dims
  std::vector<int64_t> storage;  ///< of the memory behind it: blocked ones with FRACTAL_NZ
  int64_t offset = 0;            ///< in elements
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  void* data = nullptr;
};

struct aclScalar {
  aclDataType dtype = ACL_DT_UNDEFINED;
  double real = 0;      ///< the value of a floating-point scalar
  int64_t integer = 0;  ///< of any other

  bool is_real() const;
  double as_double() const { return is_real() ? real : static_cast<double>(integer); }
  int64_t as_integer() const { return is_real() ? static_cast<int64_t>(real) : integer; }
};

inline bool aclScalar::is_real() const {
  return dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16 || dtype == ACL_DOUBLE;
}

struct aclIntArray {
  std::vector<int64_t> values;
};

struct aclFloatArray {
  std::vector<float> values;
};

struct aclBoolArray {
  std::vector<uint8_t> values;
};

/// Owns its tensors.
struct aclTensorList {
  std::vector<const aclTensor*> tensors;
};

struct aclScalarList {
  std::vector<const aclScalar*> scalars;
};
