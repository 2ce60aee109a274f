// Injected faults (REPRISE_ACL_FAULT) and the counters that tell a loop over them where to end.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/runtime/status.h"

namespace reprise::emulator {

// What a call of the interface is counted as. Calls of kind kOther (queries, destroying) are never made to fail.
enum class CallKind {
  kOther,
  kContext,   // choosing and making devices and contexts
  kMalloc,    // memory of devices and pinned memory of the host
  kStream,    // making streams
  kEvent,     // making, recording, awaiting events and notifies; writing and awaiting values
  kCopy,      // copies and fills
  kLaunch,    // kernels and host functions
  kCapture,   // beginning and ending captures and task groups
  kReplay,    // executing graphs
  kUpdate,    // task updates
  kSync,      // waits of the host
  kOperator,  // either phase of an operator
};
inline constexpr size_t kCallKinds = static_cast<size_t>(CallKind::kOperator) + 1;

// The name of a kind in REPRISE_ACL_FAULT and in the file of counts.
std::string_view name_of(CallKind kind);

// What happens to a kernel that is about to run.
struct KernelFault {
  enum class Kind { kError, kNeverEnds };
  Kind kind = Kind::kError;
  aclError code = ACL_ERROR_RT_AICORE_EXCEPTION;
};

// Comma-separated `what:N` or `what:N=CODE`, where `what` is a kind above, `any` (calls of every kind that can fail),
// `device` (the Nth kernel that runs meets a device error, which stays until the device is reset) or `timeout` (the Nth
// kernel does not end). N counts from 1. Thread-safe.
class FaultPlan {
 public:
  // The plan of this process, as the environment said at the last aclInit().
  static FaultPlan& instance();

  // Replaces the plan and clears the counters. A text that it does not understand changes nothing and is an error.
  Status load(std::string_view text);
  // load() of REPRISE_ACL_FAULT.
  Status load_environment();

  // Counts a call; the failure that it must answer, if any.
  std::optional<Status> on_call(CallKind kind);
  // Counts a kernel; what it must meet, if anything.
  std::optional<KernelFault> on_kernel();

  uint64_t count(CallKind kind) const;
  // All calls that can fail.
  uint64_t count_any() const;
  uint64_t count_kernels() const;
  // {"malloc": n, ..., "any": n, "kernel": n}
  std::string counts_as_json() const;
  // Tells on standard error of the rules whose call or kernel there never was, and forgets them.
  void tell_unused();
  // Writes them to the file that REPRISE_ACL_FAULT_COUNT names, if it does.
  Status write_counts() const;

 private:
  // A rule fires when `counter`, one of counters_, reaches `number`.
  struct Rule {
    size_t counter = 0;
    uint64_t number = 0;
    std::optional<aclError> code;
    bool never_ends = false;
    std::string text;
  };

  static Status parse(std::string_view text, std::vector<Rule>& rules);
  const Rule* find(size_t counter, uint64_t number) const;

  mutable std::mutex mutex_;
  std::vector<Rule> rules_;
  // One a kind, then any call, then kernels.
  std::array<std::atomic<uint64_t>, kCallKinds + 2> counters_{};
};

}  // namespace reprise::emulator
