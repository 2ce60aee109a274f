// What the emulator writes about a run: the trace of calls and the report of the timing model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "device/ascend/interface/acl_graph.h"
#include "device/ascend/interface/acl_runtime.h"
#include "emulator/kernel.h"

namespace reprise::emulator {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

bool do_nothing(const void* /*arguments*/, size_t /*bytes*/, uint32_t /*blocks*/) { return true; }
// 16 MB at 1.6 TB/s: 10 us.
KernelCost stream_cost(const void* /*arguments*/, size_t /*bytes*/) {
  return {.bytes_read = 12'000'000, .bytes_written = 4'000'000};
}
// 3.12e9 products at 1.56e14 a second: 20 us on all cores.
KernelCost product_cost(const void* /*arguments*/, size_t /*bytes*/) {
  return {.bytes_read = 1'600'000, .multiply_adds = 3'120'000'000};
}
const Kernel kStream{.name = "stream_kernel", .type = KernelType::kVector, .run = do_nothing, .cost = stream_cost};
const Kernel kProduct{.name = "product_kernel", .type = KernelType::kAiCore, .run = do_nothing, .cost = product_cost};

class Records : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"REPRISE_ACL_TRACE", "REPRISE_ACL_TIMING", "REPRISE_ACL_EXECUTE", "REPRISE_ACL_PROFILE"}) {
      unsetenv(name);
    }
    std::filesystem::remove(path_);
  }
  void begin(const char* variable) {
    std::filesystem::remove(path_);
    setenv(variable, path_.c_str(), 1);
    ASSERT_EQ(aclInit(nullptr), ACL_SUCCESS);
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
  }
  std::string end() {
    EXPECT_EQ(aclrtDestroyStream(stream_), ACL_SUCCESS);
    EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
    EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void launch(const Kernel& kernel, uint32_t blocks) {
    EXPECT_EQ(aclrtLaunchKernelV2(const_cast<Kernel*>(&kernel), blocks, nullptr, 0, nullptr, stream_), ACL_SUCCESS);
  }

  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("acl_records." + std::to_string(getpid()));
  aclrtStream stream_ = nullptr;
};

TEST_F(Records, TraceHoldsEveryCallAsALineOfJson) {
  begin("REPRISE_ACL_TRACE");
  void* memory = nullptr;
  EXPECT_EQ(aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
  EXPECT_EQ(aclmdlRIDebugJsonPrint(memory, "a \"path\"\n", 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtFree(memory), ACL_SUCCESS);
  std::istringstream lines(end());
  std::vector<nlohmann::json> calls;
  for (std::string line; std::getline(lines, line);) calls.push_back(nlohmann::json::parse(line));
  std::vector<std::string> names;
  for (const nlohmann::json& call : calls) names.push_back(call.at("call"));
  EXPECT_THAT(names, testing::ElementsAre("aclInit", "aclrtSetDevice", "aclrtCreateStream", "aclrtMalloc",
                                          "aclrtMalloc", "aclmdlRIDebugJsonPrint", "aclrtFree", "aclrtDestroyStream",
                                          "aclrtResetDevice", "aclFinalize"));
  EXPECT_EQ(calls[3].at("result"), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(calls[3].at("text").get<std::string>(), HasSubstr("0 bytes"));
  EXPECT_EQ(calls[4].at("arguments").at("size"), 64);
  EXPECT_EQ(calls[4].at("arguments").at("policy"), ACL_MEM_MALLOC_NORMAL_ONLY);
  EXPECT_EQ(calls[5].at("arguments").at("path"), "a \"path\"\n");
  EXPECT_THAT(calls[6].at("arguments").at("devPtr").get<std::string>(), testing::StartsWith("0x"));
  EXPECT_LT(calls[0].at("time").get<double>(), calls[9].at("time").get<double>());
  EXPECT_EQ(calls[0].at("thread"), calls[9].at("thread"));
}

TEST_F(Records, TimingReportFollowsItsConstants) {
  setenv("REPRISE_ACL_EXECUTE", "0", 1);
  setenv("REPRISE_ACL_PROFILE", "910B3,graph_kernel_start=1e-6,memory_bandwidth=1.6e12,cube_rate=1.56e14", 1);
  begin("REPRISE_ACL_TIMING");
  launch(kStream, 40);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), ACL_SUCCESS);
  launch(kStream, 40);
  launch(kProduct, 20);
  // Half of the cores take twice as long.
  launch(kProduct, 10);
  aclmdlRI graph = nullptr;
  ASSERT_EQ(aclmdlRICaptureEnd(stream_, &graph), ACL_SUCCESS);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRIDestroy(graph), ACL_SUCCESS);
  const std::string text = end();
  EXPECT_THAT(text,
              HasSubstr("calls of the host: 4 launches, 3 replays, 0 kernels updated; run: 10 kernels (9 in graphs)"));
  // Runs, in graphs, MB read, MB written, products, us, us each, bounded by memory.
  EXPECT_THAT(text, ContainsRegex("stream_kernel +4 +3 +48.000 +16.000 +0.000 +40.0 +10.00 +100%"));
  EXPECT_THAT(text, ContainsRegex("product_kernel +6 +6 +9.600 +0.000 +18.720 +180.0 +30.00 +0%"));
  // 10 + 20 + 40 us and three gaps of 1 us.
  EXPECT_THAT(text, ContainsRegex("\n +[0-9]+ +3 +3.0 +19.200 +73.0 +73.0 +73.0\n"));
}

TEST_F(Records, RefusesFilesThatCannotBeWritten) {
  for (const char* variable : {"REPRISE_ACL_TRACE", "REPRISE_ACL_TIMING"}) {
    setenv(variable, "/no/such/folder/file", 1);
    EXPECT_EQ(aclInit(nullptr), ACL_ERROR_INVALID_PARAM) << variable;
    EXPECT_THAT(aclGetRecentErrMsg(), HasSubstr(variable));
    unsetenv(variable);
  }
}

}  // namespace
}  // namespace reprise::emulator
