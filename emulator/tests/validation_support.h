// What tests of the validation layer share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "device/ascend/interface/acl_runtime.h"

#define ACL_OK(call) ASSERT_EQ(call, ACL_SUCCESS) << aclGetRecentErrMsg()
#define ACL_EXPECT_OK(call) EXPECT_EQ(call, ACL_SUCCESS) << aclGetRecentErrMsg()

namespace reprise::emulator {

inline constexpr char kClean[] = "acl validation: 0 problems\n";

// A report of the kind with every one of these parts, each with a place in this program.
inline void expect_report(const std::string& text, const std::string& kind, std::initializer_list<const char*> parts) {
  const size_t begin = text.find("acl validation: " + kind);
  ASSERT_NE(begin, std::string::npos) << text;
  const std::string report = text.substr(begin, text.find("acl validation:", begin + 1) - begin);
  for (const char* part : parts) {
    EXPECT_THAT(report,
                testing::ContainsRegex("\n  " + std::string(part) + ": acl[A-Za-z0-9]+ [^\n]*emulator_test\\("));
  }
}

}  // namespace reprise::emulator
