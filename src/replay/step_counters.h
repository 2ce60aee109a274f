#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise::replay {

/// How a step may run; see docs/architecture.md for what each stands for.
enum class Mode { kEager, kAotEager, kForceEager, kFull, kPiecewise };

/// Whether steps of this mode are replayed from captured graphs.
constexpr bool captures(Mode mode) { return mode == Mode::kFull || mode == Mode::kPiecewise; }

/// "eager", "aot_eager", "force_eager", "full", "piecewise".
std::string_view name_of(Mode mode);
std::optional<Mode> mode_from_name(std::string_view name);

enum class StepKind { kPrefill, kDecode };

/// How a step did run, and why.
enum class StepReason {
  kReplayed,            ///< from a captured graph
  kModeEager,           ///< eager or node by node, because the chosen mode says so
  kPrefill,             ///< prefill is not captured
  kAboveLargestBucket,  ///< more sequences than the largest captured batch
  kNoExactBucket,       ///< padding is off and no graph has this batch size
  kCaptureFailed,       ///< the bucket's capture failed; see the log
  kCaptureLimit,        ///< no more graphs may be captured, and this bucket came behind them
  kNotCapturedYet,      ///< the capture would have held up the step, and comes when there is time
};
inline constexpr size_t kStepReasons = 8;
/// In the order in which reports list them.
inline constexpr std::array<StepReason, kStepReasons> kAllStepReasons = {
    StepReason::kReplayed,      StepReason::kModeEager,     StepReason::kPrefill,      StepReason::kAboveLargestBucket,
    StepReason::kNoExactBucket, StepReason::kCaptureFailed, StepReason::kCaptureLimit, StepReason::kNotCapturedYet};

/// The words used in reports and metrics: "replayed", "mode", "prefill", "above_largest_bucket", "no_exact_bucket",
/// "capture_failed", "capture_limit", "not_captured_yet".
std::string_view name_of(StepReason reason);

/// Steps by kind and reason.
class StepCounters {
 public:
  void count(StepKind kind, StepReason reason) { ++counts_[static_cast<size_t>(kind)][static_cast<size_t>(reason)]; }
  int64_t steps(StepKind kind, StepReason reason) const {
    return counts_[static_cast<size_t>(kind)][static_cast<size_t>(reason)];
  }
  int64_t steps(StepKind kind) const {
    int64_t sum = 0;
    for (const int64_t count : counts_[static_cast<size_t>(kind)]) sum += count;
    return sum;
  }

 private:
  std::array<std::array<int64_t, kStepReasons>, 2> counts_{};
};

}  // namespace reprise::replay
