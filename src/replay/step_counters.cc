#include "replay/step_counters.h"

namespace reprise::replay {

std::string_view name_of(Mode mode) {
  switch (mode) {
    case Mode::kEager:
      return "eager";
    case Mode::kAotEager:
      return "aot_eager";
    case Mode::kForceEager:
      return "force_eager";
    case Mode::kFull:
      return "full";
    case Mode::kPiecewise:
      return "piecewise";
  }
  return "unknown";
}

std::optional<Mode> mode_from_name(std::string_view name) {
  for (const Mode mode : {Mode::kEager, Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
    if (name_of(mode) == name) return mode;
  }
  return std::nullopt;
}

std::string_view name_of(StepReason reason) {
  switch (reason) {
    case StepReason::kReplayed:
      return "replayed";
    case StepReason::kModeEager:
      return "mode";
    case StepReason::kPrefill:
      return "prefill";
    case StepReason::kAboveLargestBucket:
      return "above_largest_bucket";
    case StepReason::kNoExactBucket:
      return "no_exact_bucket";
    case StepReason::kCaptureFailed:
      return "capture_failed";
    case StepReason::kCaptureLimit:
      return "capture_limit";
    case StepReason::kNotCapturedYet:
      return "not_captured_yet";
  }
  return "unknown";
}

}  // namespace reprise::replay
