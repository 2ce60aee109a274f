#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace reprise {

/// Why a key's graph was captured once more.
enum class RecaptureReason {
  kMutatedInputMoved,
  kInputMoved,
  kCoreLimitChanged,
  kForced,
  kChoiceChanged,
  kUpdateFailed
};
inline constexpr size_t kRecaptureReasons = 6;
/// "mutated_input_moved", "input_moved", "core_limit_changed", "forced", "choice_changed" (a kernel chooses otherwise
/// for these lists: captured beside what is there), "update_failed" (the call before could not bring its lists in).
std::string_view name_of(RecaptureReason reason);

/// Why a call of a method that captures ran without a captured graph.
enum class FallbackReason { kRecompileLimit, kCaptureLimit, kCaptureFailed };
inline constexpr size_t kFallbackReasons = 3;
/// "recompile_limit", "capture_limit", "capture_failed".
std::string_view name_of(FallbackReason reason);

/// What a compiled method has done so far.
struct MethodCounters {
  int64_t calls = 0;
  int64_t method_runs = 0;  ///< of the method's own code: traces and eager calls
  int64_t traces = 0;
  int64_t captures = 0;   ///< of new keys
  int64_t replays = 0;    ///< calls that replayed a captured graph
  int64_t node_runs = 0;  ///< calls that ran the graph node by node
  int64_t eager_runs = 0;
  int64_t copied_inputs = 0;
  std::map<std::string, int64_t, std::less<>> recompiles;  ///< by the kind of guard that failed
  std::array<int64_t, kRecaptureReasons> recaptures{};
  std::array<int64_t, kFallbackReasons> fallbacks{};

  int64_t recaptured(RecaptureReason reason) const { return recaptures[static_cast<size_t>(reason)]; }
  int64_t fallen_back(FallbackReason reason) const { return fallbacks[static_cast<size_t>(reason)]; }
  /// One line a counter that is not zero.
  std::string to_text() const;
};

}  // namespace reprise
