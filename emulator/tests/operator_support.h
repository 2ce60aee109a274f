// What tests of operators share: tensors on the device, and calls in both phases.
#pragma once

#include <cmath>
#include <cstring>
#include <random>

#include "device/ascend/interface/acl_meta.h"
#include "device/ascend/interface/acl_operators.h"
#include "emulator/tests/runtime_support.h"

namespace reprise::emulator {

inline size_t bytes_of(aclDataType dtype) {
  if (dtype == ACL_INT64) return 8;
  if (dtype == ACL_FLOAT || dtype == ACL_INT32) return 4;
  return dtype == ACL_FLOAT16 || dtype == ACL_BF16 ? 2 : 1;
}

/// The nearest number with that many significant bits, ties to even: 8 for bfloat16, 11 for float16.
inline double with_bits(double value, int bits) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

inline double stored(aclDataType dtype, double value) {
  if (dtype == ACL_BF16) return with_bits(value, 8);
  if (dtype == ACL_FLOAT16) return with_bits(value, 11);
  return dtype == ACL_FLOAT ? static_cast<double>(static_cast<float>(value)) : value;
}

/// The bits of a number in a dtype that can hold it, and back.
inline void encode(aclDataType dtype, double value, void* to) {
  if (dtype == ACL_FLOAT) {
    const auto number = static_cast<float>(value);
    std::memcpy(to, &number, 4);
  } else if (dtype == ACL_BF16) {
    const auto number = static_cast<float>(stored(dtype, value));
    std::memcpy(to, reinterpret_cast<const char*>(&number) + 2, 2);
  } else if (dtype == ACL_FLOAT16) {
    const auto number = static_cast<_Float16>(stored(dtype, value));
    std::memcpy(to, &number, 2);
  } else {
    const auto number = static_cast<int64_t>(value);
    std::memcpy(to, &number, bytes_of(dtype));
  }
}

inline double decode(aclDataType dtype, const void* from) {
  if (dtype == ACL_BF16 || dtype == ACL_FLOAT) {
    float number = 0;
    std::memcpy(reinterpret_cast<char*>(&number) + (4 - bytes_of(dtype)), from, bytes_of(dtype));
    return static_cast<double>(number);
  }
  if (dtype == ACL_FLOAT16) {
    _Float16 number = 0;
    std::memcpy(&number, from, 2);
    return static_cast<double>(number);
  }
  if (dtype == ACL_INT8) return static_cast<double>(*static_cast<const int8_t*>(from));
  int64_t number = 0;
  std::memcpy(&number, from, bytes_of(dtype));
  if (dtype == ACL_INT32) return static_cast<double>(static_cast<int32_t>(number));
  return static_cast<double>(number);
}

using Numbers = std::vector<double>;
using Dims = std::vector<int64_t>;

constexpr aclDataType kFloats[] = {ACL_FLOAT, ACL_BF16, ACL_FLOAT16};

inline int64_t count_of(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t size : dims) count *= size;
  return count;
}

/// A tensor on the device with the memory behind it; owned by the test.
struct DeviceTensor {
  aclTensor* handle = nullptr;
  void* memory = nullptr;
  Dims dims;
  aclDataType dtype = ACL_FLOAT;

  operator aclTensor*() const { return handle; }
};

class OperatorTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    stream_ = make_stream();
  }
  void TearDown() override {
    forget();
    RuntimeTest::TearDown();
  }

  /// Destroys what was made before the device begins again.
  void forget() {
    for (const aclTensor* tensor : tensors_) EXPECT_EQ(aclDestroyTensor(tensor), ACLNN_SUCCESS);
    for (void* memory : memory_) EXPECT_EQ(aclrtFree(memory), ACL_SUCCESS);
    EXPECT_EQ(aclrtDestroyStream(stream_), ACL_SUCCESS);
    tensors_.clear();
    memory_.clear();
  }

  void* allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(aclrtMalloc(&memory, std::max<size_t>(bytes, 1), ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    memory_.push_back(memory);
    return memory;
  }

  /// Contiguous, with these numbers or (when there are none) with bytes that no kernel wrote.
  DeviceTensor tensor(const Dims& dims, aclDataType dtype, const Numbers& numbers = {}) {
    const auto count = static_cast<size_t>(count_of(dims));
    DeviceTensor result{nullptr, allocate(count * bytes_of(dtype)), dims, dtype};
    std::vector<char> bytes(count * bytes_of(dtype), 0x55);
    for (size_t i = 0; i < numbers.size(); ++i) encode(dtype, numbers[i], bytes.data() + i * bytes_of(dtype));
    upload(result, bytes);
    result.handle = aclCreateTensor(dims.data(), dims.size(), dtype, nullptr, 0, ACL_FORMAT_ND, dims.data(),
                                    dims.size(), result.memory);
    tensors_.push_back(result.handle);
    return result;
  }

  /// Another view of a tensor's memory.
  DeviceTensor view(const DeviceTensor& of, const Dims& dims, const Dims& strides, int64_t offset = 0,
                    aclFormat format = ACL_FORMAT_ND, Dims storage = {}) {
    if (storage.empty()) storage = {count_of(of.dims)};
    DeviceTensor result{nullptr, of.memory, dims, of.dtype};
    result.handle = aclCreateTensor(dims.data(), dims.size(), of.dtype, strides.data(), offset, format, storage.data(),
                                    storage.size(), of.memory);
    tensors_.push_back(result.handle);
    return result;
  }

  void upload(const DeviceTensor& to, const std::vector<char>& bytes) {
    if (bytes.empty()) return;
    EXPECT_EQ(aclrtMemcpy(to.memory, bytes.size(), bytes.data(), bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  }
  void upload(const DeviceTensor& to, const Numbers& numbers) {
    std::vector<char> bytes(numbers.size() * bytes_of(to.dtype));
    for (size_t i = 0; i < numbers.size(); ++i) encode(to.dtype, numbers[i], bytes.data() + i * bytes_of(to.dtype));
    upload(to, bytes);
  }

  /// All elements of the memory behind a tensor made by tensor().
  Numbers download(const DeviceTensor& from) {
    const auto count = static_cast<size_t>(count_of(from.dims));
    std::vector<char> bytes(count * bytes_of(from.dtype));
    if (count > 0) {
      EXPECT_EQ(aclrtMemcpy(bytes.data(), bytes.size(), from.memory, bytes.size(), ACL_MEMCPY_DEVICE_TO_HOST),
                ACL_SUCCESS);
    }
    Numbers numbers(count);
    for (size_t i = 0; i < count; ++i) numbers[i] = decode(from.dtype, bytes.data() + i * bytes_of(from.dtype));
    return numbers;
  }

  /// Numbers that the dtype can hold.
  Numbers random(int64_t count, aclDataType dtype, double limit = 2) {
    Numbers numbers(static_cast<size_t>(count));
    std::uniform_real_distribution<double> distribution(-limit, limit);
    for (double& number : numbers) {
      number = distribution(generator_);
      number = dtype == ACL_INT8 || dtype == ACL_INT32 ? std::nearbyint(number) : stored(dtype, number);
    }
    return numbers;
  }

  using PhaseTwo = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);

  /// Both phases and the end of the kernels; the first failure.
  template <typename... Parameters, typename... Arguments>
  aclnnStatus call(aclnnStatus (*first)(Parameters...), PhaseTwo second, Arguments... arguments) {
    const aclnnStatus status = enqueue(first, second, stream_, arguments...);
    return status != ACLNN_SUCCESS ? status : sync(stream_);
  }

  /// Without waiting; the workspace lives as long as the test.
  template <typename... Parameters, typename... Arguments>
  aclnnStatus enqueue(aclnnStatus (*first)(Parameters...), PhaseTwo second, aclrtStream stream,
                      Arguments... arguments) {
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus status = first(arguments..., &bytes, &executor);
    if (status != ACLNN_SUCCESS) return status;
    workspace_bytes_ = bytes;
    return second(bytes == 0 ? nullptr : allocate(bytes), bytes, executor, stream);
  }

  aclrtStream stream_ = nullptr;
  uint64_t workspace_bytes_ = 0;  ///< of the last call
  std::mt19937 generator_{7};

 private:
  std::vector<const aclTensor*> tensors_;
  std::vector<void*> memory_;
};

/// Both phases of an operator.
#define BOTH(name) name##GetWorkspaceSize, name

inline void expect_near(const Numbers& actual, const Numbers& expected, double relative, double absolute = 1e-6) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], absolute + relative * std::fabs(expected[i])) << "at element " << i;
  }
}

/// One unit in the last place of a dtype, as a relative error.
inline double unit(aclDataType dtype) {
  return dtype == ACL_BF16 ? 1.0 / 128 : dtype == ACL_FLOAT16 ? 1.0 / 1024 : 1e-6;
}

}  // namespace reprise::emulator
