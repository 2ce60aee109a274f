#pragma once

#include "emulator/tests/runtime_support.h"

namespace reprise::emulator {

inline constexpr aclmdlRICaptureMode kThreadLocal = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;

class GraphTest : public RuntimeTest {
 protected:
  void begin(aclrtStream stream, aclmdlRICaptureMode mode = kThreadLocal) {
    ASSERT_EQ(aclmdlRICaptureBegin(stream, mode), ACL_SUCCESS);
  }
  aclmdlRI end(aclrtStream stream) {
    aclmdlRI graph = nullptr;
    EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), ACL_SUCCESS);
    return graph;
  }
  aclError end_code(aclrtStream stream) {
    aclmdlRI graph = &graph;
    const aclError code = aclmdlRICaptureEnd(stream, &graph);
    EXPECT_EQ(graph == nullptr, code != ACL_SUCCESS);
    return code;
  }
  static aclmdlRICaptureStatus status_of(aclrtStream stream) {
    aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
    EXPECT_EQ(aclmdlRICaptureGetInfo(stream, &status, nullptr), ACL_SUCCESS);
    return status;
  }
  void* make_word() {
    void* word = nullptr;
    EXPECT_EQ(aclrtMallocAlign32(&word, 32, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
    EXPECT_EQ(aclrtMemset(word, 32, 0, 32), ACL_SUCCESS);
    return word;
  }
  aclrtStream stream_ = nullptr;
  int32_t* number_ = nullptr;

  void SetUp() override {
    RuntimeTest::SetUp();
    stream_ = make_stream();
    number_ = make_numbers(4);
  }
};

}  // namespace reprise::emulator
