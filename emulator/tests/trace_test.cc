// The trace holds every call that there is.
#include <dlfcn.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/ascend/interface/acl_meta.h"
#include "device/ascend/interface/acl_operators.h"
#include "device/ascend/interface/acl_runtime.h"

namespace reprise::emulator {
namespace {

// The functions of the interface that a library has, by its table of dynamic symbols.
std::set<std::string> exported_calls(const void* address_in_library) {
  Dl_info info{};
  EXPECT_NE(dladdr(address_in_library, &info), 0);
  std::ifstream file(info.dli_fname, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes.data() + header->e_shoff);
  std::set<std::string> names;
  for (int i = 0; i < header->e_shnum; ++i) {
    const Elf64_Shdr& section = sections[i];
    if (section.sh_type != SHT_DYNSYM) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(bytes.data() + section.sh_offset);
    const char* texts = bytes.data() + sections[section.sh_link].sh_offset;
    for (size_t k = 0; k < section.sh_size / sizeof(Elf64_Sym); ++k) {
      const std::string name = texts + symbols[k].st_name;
      if (symbols[k].st_shndx != SHN_UNDEF && (name.starts_with("acl") || name.starts_with("Acl"))) names.insert(name);
    }
  }
  return names;
}

// Calls a function of any signature with zeros: null pointers, sizes of nothing, structures of zeros.
template <size_t... I>
#ifdef __clang__
__attribute__((no_sanitize("function")))
#endif
void call_with_zeros(void* function, std::index_sequence<I...> /*count*/) {
  reinterpret_cast<int64_t (*)(decltype(I)...)>(function)((static_cast<void>(I), size_t{0})...);
}

TEST(Trace, HoldsEveryFunctionThatTheLibrariesHave) {
  const std::string path = std::filesystem::temp_directory_path() / ("acl_trace." + std::to_string(getpid()));
  std::filesystem::remove(path);
  std::set<std::string> names;
  for (const void* library : {reinterpret_cast<const void*>(&aclInit), reinterpret_cast<const void*>(&aclCreateTensor),
                              reinterpret_cast<const void*>(&aclnnAdd)}) {
    const std::set<std::string> of_library = exported_calls(library);
    EXPECT_GT(of_library.size(), 30U);
    names.insert(of_library.begin(), of_library.end());
  }
  setenv("REPRISE_ACL_TRACE", path.c_str(), 1);
  ASSERT_EQ(aclInit(nullptr), ACL_SUCCESS);
  for (const std::string& name : names) {
    if (name.starts_with("aclFinalize") || name == "aclInit") continue;
    call_with_zeros(dlsym(RTLD_DEFAULT, name.c_str()), std::make_index_sequence<80>());
  }
  uint64_t references = 1;
  EXPECT_EQ(aclFinalizeReference(&references), ACL_SUCCESS);
  unsetenv("REPRISE_ACL_TRACE");
  std::set<std::string> traced;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json call = nlohmann::json::parse(line);
    const std::string name = call.at("call");
    traced.insert(name);
    if (name.starts_with("aclnn")) {
      EXPECT_FALSE(call.at("arguments").empty()) << name;
    }
  }
  std::vector<std::string> missing;
  std::ranges::set_difference(names, traced, std::back_inserter(missing));
  EXPECT_THAT(missing, testing::IsEmpty());
  std::filesystem::remove(path);
}

TEST(Trace, ShowsWhatObjectsAreMadeOf) {
  const std::string path = std::filesystem::temp_directory_path() / ("acl_trace." + std::to_string(getpid()));
  std::filesystem::remove(path);
  setenv("REPRISE_ACL_TRACE", path.c_str(), 1);
  ASSERT_EQ(aclInit(nullptr), ACL_SUCCESS);
  const int64_t dims[] = {2, 3};
  aclTensor* tensor = aclCreateTensor(dims, 2, ACL_BF16, nullptr, 5, ACL_FORMAT_ND, dims, 2, nullptr);
  EXPECT_EQ(aclDestroyTensor(tensor), ACLNN_SUCCESS);
  EXPECT_EQ(aclDestroyTensor(tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
  unsetenv("REPRISE_ACL_TRACE");
  std::vector<nlohmann::json> calls;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) calls.push_back(nlohmann::json::parse(line));
  std::filesystem::remove(path);
  ASSERT_EQ(calls.size(), 5U);
  const nlohmann::json& made = calls[1].at("arguments");
  EXPECT_EQ(made.at("viewDims"), nlohmann::json({2, 3}));
  EXPECT_EQ(made.at("dataType"), ACL_BF16);
  EXPECT_EQ(made.at("offset"), 5);
  EXPECT_EQ(made.at("tensorData"), nullptr);
  EXPECT_EQ(made.at("returned"), calls[2].at("arguments").at("tensor"));
  EXPECT_EQ(calls[3].at("result"), ACLNN_ERR_PARAM_INVALID);
}

TEST(Trace, ShowsWhatOperatorsAreGivenAndWhichCallsTheyMake) {
  const std::string path = std::filesystem::temp_directory_path() / ("acl_trace." + std::to_string(getpid()));
  std::filesystem::remove(path);
  setenv("REPRISE_ACL_TRACE", path.c_str(), 1);
  ASSERT_EQ(aclInit(nullptr), ACL_SUCCESS);
  ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  void* memory = nullptr;
  ASSERT_EQ(aclrtMalloc(&memory, 1024, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
  const int64_t dims[] = {2, 3};
  const int64_t strides[] = {1, 2};
  float one = 1;
  aclTensor* x = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, memory);
  aclTensor* y = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 6, ACL_FORMAT_ND, dims, 2, memory);
  aclScalar* alpha = aclCreateScalar(&one, ACL_FLOAT);
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclnnAddGetWorkspaceSize(x, nullptr, alpha, y, &bytes, &executor), ACLNN_ERR_PARAM_NULLPTR);
  ASSERT_EQ(aclnnAddGetWorkspaceSize(x, y, alpha, y, &bytes, &executor), ACLNN_SUCCESS);
  void* workspace = nullptr;
  ASSERT_EQ(aclrtMalloc(&workspace, bytes + 32, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
  EXPECT_EQ(aclnnAdd(workspace, bytes, executor, nullptr), ACLNN_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
  EXPECT_EQ(aclDestroyTensor(x), ACLNN_SUCCESS);
  EXPECT_EQ(aclDestroyTensor(y), ACLNN_SUCCESS);
  EXPECT_EQ(aclDestroyScalar(alpha), ACLNN_SUCCESS);
  EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
  unsetenv("REPRISE_ACL_TRACE");
  std::vector<nlohmann::json> first;
  std::vector<nlohmann::json> second;
  std::set<std::string> own;
  std::set<std::string> inside;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json call = nlohmann::json::parse(line);
    const std::string name = call.at("call");
    (call.contains("inside") ? inside : own).insert(name);
    if (name == "aclnnAddGetWorkspaceSize") first.push_back(call);
    if (name == "aclnnAdd") second.push_back(call);
    if (name == "aclrtLaunchKernelV2") {
      EXPECT_EQ(call.at("inside"), "aclnnAdd");
    }
  }
  std::filesystem::remove(path);
  ASSERT_EQ(first.size(), 2U);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(first[0].at("arguments").at("other"), nullptr);
  EXPECT_FALSE(first[0].at("arguments").contains("executor"));
  const nlohmann::json& given = first[1].at("arguments");
  EXPECT_EQ(given.at("self").at("dtype"), "FLOAT");
  EXPECT_EQ(given.at("self").at("shape"), nlohmann::json({2, 3}));
  EXPECT_EQ(given.at("self").at("strides"), nlohmann::json({1, 2}));
  EXPECT_EQ(given.at("self").at("format"), "ND");
  EXPECT_EQ(given.at("self").at("address"), given.at("out").at("address"));
  EXPECT_FALSE(given.at("out").contains("strides"));
  EXPECT_EQ(given.at("out").at("offset"), 6);
  EXPECT_EQ(given.at("alpha").at("value"), 1);
  EXPECT_EQ(given.at("workspaceSize"), bytes);
  EXPECT_EQ(given.at("executor"), second[0].at("arguments").at("executor"));
  EXPECT_EQ(second[0].at("arguments").at("workspaceSize"), bytes);
  EXPECT_EQ(second[0].at("arguments").at("stream"), nullptr);
  EXPECT_FALSE(own.contains("aclrtLaunchKernelV2"));
  EXPECT_TRUE(inside.contains("aclrtGetSocName"));
}

}  // namespace
}  // namespace reprise::emulator
