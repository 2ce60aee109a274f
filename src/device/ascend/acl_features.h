#pragma once

#include <array>
#include <string>
#include <string_view>

namespace reprise::device::ascend {

/// What the device can use of AscendCL. Each needs its own functions (acl_symbols.h); a feature whose functions are not
/// there is off, and nothing else.
enum class Feature {
  kRuntime,  ///< without it there is no device
  kVersion,
  kErrorText,
  kCoreCount,
  kTimedWait,
  kStreamAbort,
  kStopOnFailure,
  kHostFunction,
  kResourceCount,
  kCoreLimit,
  kOwnKernels,
  kValueWait,
  kExternalEvent,
  kGraph,
  kTaskUpdate,
  kGraphDump,
  kOperators,
  kRepeatableExecutor,
};
inline constexpr size_t kFeatureCount = static_cast<size_t>(Feature::kRepeatableExecutor) + 1;

/// What a feature is, for people: "captured graphs".
std::string_view name_of(Feature feature);
/// What is done without it: "graphs run eagerly".
std::string_view without(Feature feature);

/// Which features are on; of the others, why they are not.
class FeatureSet {
 public:
  bool has(Feature feature) const { return why_not(feature).empty(); }
  /// Empty for a feature that is on.
  const std::string& why_not(Feature feature) const { return reasons_[static_cast<size_t>(feature)]; }
  /// The first reason counts.
  void turn_off(Feature feature, std::string reason) {
    std::string& kept = reasons_[static_cast<size_t>(feature)];
    if (kept.empty()) kept = std::move(reason);
  }

 private:
  std::array<std::string, kFeatureCount> reasons_;
};

}  // namespace reprise::device::ascend
