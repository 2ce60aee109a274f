// What tests of the emulator's runtime share: a device for the test's time, and kernels to launch.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "device/ascend/interface/acl_graph.h"
#include "device/ascend/interface/acl_runtime.h"
#include "emulator/kernel.h"

namespace reprise::emulator {

/// Device 0 with a context current in the test's thread. Changes of the environment end with it.
class RuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(aclInit(nullptr), ACL_SUCCESS);
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
    for (const std::string& name : names_) unsetenv(name.c_str());
  }
  /// Begins again with another environment.
  void restart_with(const char* name, const char* value) {
    ASSERT_EQ(aclFinalize(), ACL_SUCCESS);
    setenv(name, value, 1);
    names_.push_back(name);
    SetUp();
  }

  aclrtStream make_stream() {
    aclrtStream stream = nullptr;
    EXPECT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
    return stream;
  }
  aclrtEvent make_event() {
    aclrtEvent event = nullptr;
    EXPECT_EQ(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC), ACL_SUCCESS);
    return event;
  }
  int32_t* make_numbers(size_t count) {
    void* address = nullptr;
    EXPECT_EQ(aclrtMalloc(&address, count * sizeof(int32_t), ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    EXPECT_EQ(aclrtMemset(address, count * sizeof(int32_t), 0, count * sizeof(int32_t)), ACL_SUCCESS);
    return static_cast<int32_t*>(address);
  }
  static int32_t read(const int32_t* address) {
    int32_t value = -1;
    EXPECT_EQ(aclrtMemcpy(&value, sizeof(value), address, sizeof(value), ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
    return value;
  }
  static void write(int32_t* address, int32_t value) {
    EXPECT_EQ(aclrtMemcpy(address, sizeof(value), &value, sizeof(value), ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  }
  static aclError sync(aclrtStream stream) { return aclrtSynchronizeStreamWithTimeout(stream, 20000); }

 private:
  std::vector<std::string> names_;
};

/// *target = *target * factor + addend.
struct AffineArguments {
  int32_t* target;
  int32_t factor;
  int32_t addend;
};

inline bool run_affine(const void* arguments, size_t bytes, uint32_t /*blocks*/) {
  const auto& it = *static_cast<const AffineArguments*>(arguments);
  auto* target = static_cast<int32_t*>(emulatorHostAddress(it.target, sizeof(int32_t)));
  if (!target || bytes != sizeof(it)) return false;
  *target = *target * it.factor + it.addend;
  return true;
}
inline KernelCost cost_of_affine(const void* /*arguments*/, size_t /*bytes*/) {
  return {.bytes_read = 1000, .bytes_written = 500, .multiply_adds = 250};
}

inline const Kernel kAffine{.name = "Affine", .type = KernelType::kVector, .run = run_affine, .cost = cost_of_affine};
inline const Kernel kAffineCube{.name = "AffineCube", .type = KernelType::kAiCore, .run = run_affine};
inline const Kernel kAffineCpu{.name = "AffineCpu", .type = KernelType::kAiCpu, .run = run_affine};

inline aclError launch(const Kernel& kernel, int32_t* target, int32_t factor, int32_t addend, aclrtStream stream) {
  const AffineArguments arguments{target, factor, addend};
  return aclrtLaunchKernelV2(const_cast<Kernel*>(&kernel), 1, &arguments, sizeof(arguments), nullptr, stream);
}

}  // namespace reprise::emulator
