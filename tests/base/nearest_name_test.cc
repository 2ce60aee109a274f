#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise {

TEST(NearestName, IsTheOneWithTheFewestEdits) {
  const std::vector<std::string> names = {"--model", "--device", "--threads"};
  EXPECT_EQ(nearest_name("--devise", names), "--device");
  EXPECT_EQ(nearest_name("--thread", names), "--threads");
  EXPECT_EQ(nearest_name("--quantization", names), "");
  EXPECT_EQ(nearest_name("x", {}), "");
  EXPECT_EQ(nearest_name(std::string(size_t{64} << 20, 'x'), names), "");  // at once
}

TEST(NearestName, IsTheOnlyOneThatGoesOn) {
  const std::vector<std::string> names = {"pattern_fusion_pass", "data_dump_stage", "data_dump_dir"};
  EXPECT_EQ(nearest_name("pattern_fusion", names), "pattern_fusion_pass");
  EXPECT_EQ(nearest_name("pattern_fus", names), "") << "inside a word";
  EXPECT_EQ(nearest_name("data_dump", std::vector<std::string>{"data_dump_storage", "data_dump_folder"}), "");
  EXPECT_EQ(nearest_name("-", std::vector<std::string>{"--quantization"}), "");
}

TEST(NearestName, PrefersPluralsAndSingulars) {
  EXPECT_EQ(nearest_name("--mode", std::vector<std::string>{"--model", "--modes", "--nodes"}), "--modes");
  EXPECT_EQ(nearest_name("--sizes", std::vector<std::string>{"--sixes", "--size"}), "--size");
}

}  // namespace reprise
