// Settings of the environment: what is not understood is told, and nothing of it is taken for something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "device/ascend/interface/acl_runtime.h"

namespace reprise::emulator {
namespace {

using testing::HasSubstr;

// The text of aclInit() under the setting; empty when it was taken.
std::string refusal(const char* variable, const std::string& value) {
  setenv(variable, value.c_str(), 1);
  (void)aclGetRecentErrMsg();
  const aclError code = aclInit(nullptr);
  unsetenv(variable);
  if (code == ACL_SUCCESS) {
    EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
    return {};
  }
  EXPECT_EQ(code, ACL_ERROR_INVALID_PARAM) << variable << "=" << value;
  const char* text = aclGetRecentErrMsg();
  return text ? text : "";
}

TEST(Settings, ThatAreNotUnderstoodAreRefusedByName) {
  for (const char* variable : {"REPRISE_ACL_EXECUTE", "REPRISE_ACL_POISON"}) {
    for (const char* value : {"2", "yes", "00", "-1", " 1"}) {
      EXPECT_THAT(refusal(variable, value), testing::AllOf(HasSubstr(variable), HasSubstr(value)));
    }
    for (const char* value : {"", "0", "1"}) EXPECT_EQ(refusal(variable, value), "") << variable << "=" << value;
  }
}

TEST(Settings, OfNoNameAreRefusedWithTheNearest) {
  EXPECT_THAT(refusal("REPRISE_ACL_FAULTS", "malloc:1"),
              testing::AllOf(HasSubstr("REPRISE_ACL_FAULTS is no setting"), HasSubstr("nearest is REPRISE_ACL_FAULT")));
}

TEST(Settings, ThatNameFilesAreNoSwitches) {
  for (const char* variable : {"REPRISE_ACL_TRACE", "REPRISE_ACL_VALIDATE"}) {
    for (const char* value : {"true", "2", "on"}) {
      EXPECT_THAT(refusal(variable, value), testing::AllOf(HasSubstr(variable), HasSubstr(value)));
      EXPECT_FALSE(std::filesystem::exists(value));
    }
  }
  EXPECT_THAT(refusal("REPRISE_ACL_TRACE", "1"), HasSubstr("names no file"));
}

TEST(Settings, OfFaultsThatNeverHappenAreTold) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(refusal("REPRISE_ACL_FAULT", "malloc:999"), "");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("malloc:999 never happened: there were only 0"));
}

TEST(Settings, OfAProfileHaveRanges) {
  for (const char* change :
       {"cube_cores=0",       "vector_cores=0",     "aicpu_cores=0",     "queue_depth=0",    "kernel_timeout_ms=0",
        "memory_bytes=0",     "memory_bytes=1e20",  "memory_taken=1e30", "memory_slack=nan", "devices=1e300",
        "devices=65",         "devices=1.5",        "streams=inf",       "streams=-1",       "events=1e10",
        "cube_cores=20.5",    "l2_bytes=0",         "ubuf_bytes=0",      "graphs=2",         "value_wait=0.5",
        "memory_bandwidth=0", "copy_bandwidth=0",   "cube_rate=0",       "cube_rate=inf",    "host_launch=nan",
        "task=100",           "version_major=1e12", "npu_arch=-1"}) {
    const std::string key(change, std::string_view(change).find('='));
    EXPECT_THAT(refusal("REPRISE_ACL_PROFILE", std::string("910B3,") + change),
                testing::AllOf(HasSubstr("REPRISE_ACL_PROFILE"), HasSubstr("'" + key + "'")))
        << change;
  }
  for (const char* change : {"streams=1", "events=0", "notifies=0", "models=0", "software_queues=0", "queue_reserve=0",
                             "destroy_timeout_ms=0", "memory_slack=0", "task=0", "memory_bytes=1048576", "graphs=0"}) {
    EXPECT_EQ(refusal("REPRISE_ACL_PROFILE", std::string("910B3,") + change), "");
  }
}

TEST(Settings, NameTheProfileThatCannotBeRead) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("acl_profile." + std::to_string(getpid()) + ".json");
  std::filesystem::create_directory(path);
  for (const std::string& it : {path, std::string("/no/such/profile.json")}) {
    EXPECT_THAT(refusal("REPRISE_ACL_PROFILE", it), testing::AllOf(HasSubstr("REPRISE_ACL_PROFILE"), HasSubstr(it)));
  }
  std::filesystem::remove(path);
}

TEST(Settings, OfFilesThatFillUpAreTold) {
  for (const char* variable : {"REPRISE_ACL_TRACE", "REPRISE_ACL_VALIDATE", "REPRISE_ACL_STATISTICS",
                               "REPRISE_ACL_TIMING", "REPRISE_ACL_FAULT_COUNT"}) {
    setenv(variable, "/dev/full", 1);
    testing::internal::CaptureStderr();
    ASSERT_EQ(aclInit(nullptr), ACL_SUCCESS) << variable;
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    void* memory = nullptr;
    ASSERT_EQ(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
    ASSERT_EQ(aclrtMemsetAsync(memory, 64, 0, 64, nullptr), ACL_SUCCESS);
    ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    (void)aclGetRecentErrMsg();
    EXPECT_EQ(aclFinalize(), ACL_ERROR_INVALID_PARAM) << variable;
    unsetenv(variable);
    const std::string told = testing::internal::GetCapturedStderr();
    const char* text = aclGetRecentErrMsg();
    ASSERT_NE(text, nullptr) << variable;
    EXPECT_THAT(text, HasSubstr("/dev/full"));
    // These two grow while the program runs, which need not ask for the code of its last call.
    const std::string_view name = variable;
    if (name.ends_with("TRACE") || name.ends_with("VALIDATE")) {
      EXPECT_THAT(told, HasSubstr(variable));
    }
  }
  // Without the variables all is well again.
  ASSERT_EQ(aclInit(nullptr), ACL_SUCCESS);
  EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
}

}  // namespace
}  // namespace reprise::emulator
