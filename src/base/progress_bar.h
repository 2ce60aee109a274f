#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace reprise {

/// A bar on standard error for work that takes longer than a second: silent before that, redrawn at most ten times a
/// second. On a terminal it is one line that is wiped at the end; elsewhere it prints a line at the start and at each
/// quarter, so that logs stay short.
class ProgressBar {
 public:
  ProgressBar() : ProgressBar(stderr) {}
  explicit ProgressBar(std::FILE* stream);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done` of `total` units are done, and `text` says what goes on, an empty one that it still does:
  /// "TEXT:  25%|#####     | 1/4 [00:02<00:06]".
  void update(double done, double total, const std::string& text);
  /// Ends the bar of work that is done as a whole: the last line that it leaves says 100 %. Without it the bar ends
  /// with its life, and says how far the work came.
  void finish();
  /// What update() would draw after `seconds`, for `columns` columns.
  static std::string line(double done, double total, const std::string& text, double seconds, int columns);

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* stream_;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_{};
  bool visible_ = false;
  int printed_quarter_ = -1;
  double total_ = 0;
  std::string text_;

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void end();
};

}  // namespace reprise
