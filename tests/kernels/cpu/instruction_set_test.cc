#include "kernels/cpu/instruction_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace reprise::kernels::cpu {
namespace {

TEST(InstructionSet, B80TakesTheBestOneUnlessOneIsNamed) {
  const std::vector<InstructionSet> available = available_instruction_sets();
  ASSERT_EQ(available.front(), InstructionSet::kPortable);
  EXPECT_EQ(choose_instruction_set(""), available.back());
  for (InstructionSet set : available) EXPECT_EQ(choose_instruction_set(name_of(set)), set);
}

TEST(InstructionSet, RefusesUnknownNamesWithTheChoices) {
  try {
    choose_instruction_set("sse9");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(std::string(error.what()), testing::AllOf(testing::HasSubstr("sse9"), testing::HasSubstr("portable"),
                                                          testing::HasSubstr("REPRISE_CPU_ISA")));
  }
}

TEST(InstructionSet, B80RefusesExactlyWhatThisCpuLacks) {
  const std::vector<InstructionSet> available = available_instruction_sets();
  for (InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512, InstructionSet::kAvx512Bf16}) {
    if (testing::Value(available, testing::Contains(set))) {
      EXPECT_EQ(choose_instruction_set(name_of(set)), set);
    } else {
      EXPECT_THROW(choose_instruction_set(name_of(set)), Error);
    }
  }
}

}  // namespace
}  // namespace reprise::kernels::cpu
