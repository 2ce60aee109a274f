#include "base/progress_bar.h"

#include <gtest/gtest.h>

namespace reprise {

TEST(ProgressBar, ShowsShareCountAndTimes) {
  EXPECT_EQ(ProgressBar::line(1, 4, "Capturing batches (bs=2 avail_mem=1.00 GB)", 2, 80),
            "Capturing batches (bs=2 avail_mem=1.00 GB):  25%|###         | 1/4 [00:02<00:06]");
  EXPECT_EQ(ProgressBar::line(0, 0, "x", 0, 30), "x:   0%|       | 0/0 [00:00<?]");
}

TEST(ProgressBar, IsSilentForShortWork) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    ProgressBar bar(file);
    for (int i = 0; i < 100; ++i) bar.update(i, 100, "work");
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace reprise
