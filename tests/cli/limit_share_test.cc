#include "cli/limit_share.h"

#include <gtest/gtest.h>

namespace reprise::cli {
namespace {

TEST(LimitShare, ComparesMediansAndLetsTheFastestPassCountWhereTheyCannotBe) {
  const LimitShare quiet(0.9, 0.8, 1.0);
  EXPECT_DOUBLE_EQ(quiet.value(), 0.9);
  EXPECT_FALSE(quiet.is_disturbed());
  EXPECT_EQ(quiet.to_text(), "90.0 %");
  EXPECT_FALSE(LimitShare(1.04, 0.8, 1.0).is_disturbed());
  // Passes that waited for a thread which had no processor.
  const LimitShare disturbed(6.04, 0.95, 1.0);
  EXPECT_DOUBLE_EQ(disturbed.value(), 0.95);
  EXPECT_TRUE(disturbed.is_disturbed());
  EXPECT_EQ(disturbed.to_text(), "95.0 % *");
  EXPECT_TRUE(LimitShare(6.04, 2.0, 1.0).is_disturbed()) << "no pass was fast";
}

TEST(LimitShare, RunsOfOneLimitAreMarkedTogetherAndFasterOnesHaveMore) {
  // 0.334 ms would be 95 % of the slower run, and is more than the faster one took.
  const LimitShare slow(0.334, 0.082, 0.351, 0.301), fast(0.334, 0.082, 0.301, 0.301);
  EXPECT_TRUE(slow.is_disturbed());
  EXPECT_TRUE(fast.is_disturbed());
  EXPECT_DOUBLE_EQ(slow.value(), 0.082 / 0.351);
  EXPECT_DOUBLE_EQ(fast.value(), 0.082 / 0.301);
}

TEST(LimitShare, SaysWhatTheMarkMeansWhereThereIsOne) {
  EXPECT_EQ(LimitShare::remark(false), "");
  EXPECT_EQ(LimitShare::remark(true).substr(0, 2), "* ");
  EXPECT_EQ(LimitShare().to_text(), "-") << "no limit is known";
}

}  // namespace
}  // namespace reprise::cli
