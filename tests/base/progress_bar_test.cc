#include "base/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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

/// Work of 4 steps that reports these.
struct Work {
  std::vector<int> reports;
  bool finished;
};

/// What a bar leaves in a file, for each of the works, which have all lasted long enough to be shown.
std::vector<std::string> lines_of(const std::vector<Work>& works) {
  std::vector<std::FILE*> files;
  std::vector<std::unique_ptr<ProgressBar>> bars;
  for (size_t i = 0; i < works.size(); ++i) {
    files.push_back(std::tmpfile());
    bars.push_back(std::make_unique<ProgressBar>(files.back()));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1010));
  std::vector<std::string> lines;
  for (size_t i = 0; i < works.size(); ++i) {
    for (const int done : works[i].reports) bars[i]->update(done, 4, done < 4 ? "work" : "");
    if (works[i].finished) bars[i]->finish();
    bars[i].reset();
    std::string& text = lines.emplace_back(static_cast<size_t>(std::ftell(files[i])), ' ');
    std::rewind(files[i]);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), files[i]), text.size());
    std::fclose(files[i]);
  }
  return lines;
}

TEST(ProgressBar, SaysAtTheEndThatAllIsDoneHoweverSoonThatComes) {
  using testing::HasSubstr;
  const std::vector<std::string> lines =
      lines_of({{{0, 1, 2, 3, 4}, true}, {{0, 1, 2, 3}, true}, {{4, 4}, true}, {{0, 1}, false}});
  EXPECT_THAT(lines[0], HasSubstr("work: 100%"));
  EXPECT_THAT(lines[1], HasSubstr("work: 100%"));  // reports come before each unit
  EXPECT_EQ(lines[2].find("100%"), lines[2].rfind("100%"));
  EXPECT_THAT(lines[3], testing::Not(HasSubstr("100%")));  // it was given up
}

}  // namespace reprise
