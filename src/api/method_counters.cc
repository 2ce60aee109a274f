#include "reprise/method_counters.h"

#include <fmt/core.h>

namespace reprise {

std::string_view name_of(RecaptureReason reason) {
  switch (reason) {
    case RecaptureReason::kMutatedInputMoved:
      return "mutated_input_moved";
    case RecaptureReason::kInputMoved:
      return "input_moved";
    case RecaptureReason::kCoreLimitChanged:
      return "core_limit_changed";
    case RecaptureReason::kForced:
      return "forced";
    case RecaptureReason::kChoiceChanged:
      return "choice_changed";
    case RecaptureReason::kUpdateFailed:
      return "update_failed";
  }
  return "unknown";
}

std::string_view name_of(FallbackReason reason) {
  switch (reason) {
    case FallbackReason::kRecompileLimit:
      return "recompile_limit";
    case FallbackReason::kCaptureLimit:
      return "capture_limit";
    case FallbackReason::kCaptureFailed:
      return "capture_failed";
  }
  return "unknown";
}

std::string MethodCounters::to_text() const {
  std::string text;
  const auto line = [&](std::string_view name, int64_t value) {
    if (value != 0) text += fmt::format("{}: {}\n", name, value);
  };
  line("calls", calls);
  line("replays", replays);
  line("node by node", node_runs);
  line("eager", eager_runs);
  line("runs of the method's code", method_runs);
  line("traces", traces);
  line("captures", captures);
  line("copied inputs", copied_inputs);
  for (const auto& [reason, count] : recompiles) line(fmt::format("recompiles ({})", reason), count);
  for (size_t i = 0; i < recaptures.size(); ++i) {
    line(fmt::format("recaptures ({})", name_of(static_cast<RecaptureReason>(i))), recaptures[i]);
  }
  for (size_t i = 0; i < fallbacks.size(); ++i) {
    line(fmt::format("fallbacks ({})", name_of(static_cast<FallbackReason>(i))), fallbacks[i]);
  }
  return text;
}

}  // namespace reprise
