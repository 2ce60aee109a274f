#pragma once

#include <fmt/core.h>

#include <string>

namespace reprise::cli {

/// The share of a measured limit that a run has reached. Medians of both are compared; where they say what cannot be,
/// something else has held up the passes that measured the limit, and the fastest of them counts.
class LimitShare {
 public:
  LimitShare() = default;
  /// All in seconds: the limit by the median pass and by the fastest one, and the run's median. `fastest_run`: that of
  /// the runs that were measured in the same rounds. They have one limit, so that a faster run has a larger share.
  LimitShare(double median_limit, double best_limit, double run, double fastest_run)
      // Medians of passes and runs that take turns differ by a few percent on a quiet machine.
      : disturbed_(median_limit > kMostShare * fastest_run), value_((disturbed_ ? best_limit : median_limit) / run) {}
  LimitShare(double median_limit, double best_limit, double run) : LimitShare(median_limit, best_limit, run, run) {}

  double value() const { return value_; }
  /// Whether there was a limit to compare with.
  bool is_measured() const { return value_ > 0; }
  bool is_disturbed() const { return disturbed_; }
  /// "97.1 %", with a mark if it was disturbed; "-" without a limit.
  std::string to_text() const {
    return is_measured() ? fmt::format("{:.1f} %{}", value_ * 100, disturbed_ ? " *" : "") : "-";
  }
  /// What the mark means, a line for below the table; "" if nothing has one.
  static std::string remark(bool any_disturbed) {
    if (!any_disturbed) return "";
    return "* a run was above the measured limit: something else used the machine while the limit was measured. The "
           "shares of its rounds are those of the fastest pass; run again.\n";
  }

 private:
  static constexpr double kMostShare = 1.05;
  bool disturbed_ = false;
  double value_ = 0;
};

}  // namespace reprise::cli
