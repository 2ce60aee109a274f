#include "base/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

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

/// What a bar leaves in a file of work that reports its steps as `reports` of 4.
std::string lines_of(std::initializer_list<int> reports, bool finished) {
  std::FILE* file = std::tmpfile();
  {
    ProgressBar bar(file);
    std::this_thread::sleep_for(std::chrono::milliseconds(1010));
    for (const int done : reports) bar.update(done, 4, done < 4 ? "work" : "");
    if (finished) bar.finish();
  }
  std::string text(static_cast<size_t>(std::ftell(file)), ' ');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

TEST(ProgressBar, SaysAtTheEndThatAllIsDoneHoweverSoonThatComes) {
  using testing::HasSubstr;
  EXPECT_THAT(lines_of({0, 1, 2, 3, 4}, true), HasSubstr("work: 100%"));
  EXPECT_THAT(lines_of({0, 1, 2, 3}, true), HasSubstr("work: 100%"));  // reports come before each unit
  const std::string twice = lines_of({4, 4}, true);
  EXPECT_EQ(twice.find("100%"), twice.rfind("100%"));
  EXPECT_THAT(lines_of({0, 1}, false), testing::Not(HasSubstr("100%")));  // it was given up
}

}  // namespace reprise
