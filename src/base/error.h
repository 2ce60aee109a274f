#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace reprise {

/// What kind of failure an Error reports. Exit codes follow from it here, HTTP statuses in the server.
enum class ErrorCode {
  kInvalidArgument,     ///< a caller's value is wrong: option, shape, request field
  kNotFound,            ///< a named file, tensor, operator or token does not exist
  kCorruptData,         ///< a file's content contradicts itself or its format
  kUnsupported,         ///< well-formed, but not built in this version or on this device
  kIo,                  ///< the operating system refused to read or write
  kOutOfMemory,         ///< memory ran out
  kResourceExhausted,   ///< another limited resource ran out: pages, streams, queue places
  kFailedPrecondition,  ///< the object is not in a state that allows the call
  kCancelled,           ///< the user or a peer ended the work
  kGraphBreak,          ///< a method cannot be traced as one graph
  kInternal,            ///< a broken invariant of Reprise itself

  // Device rules, named for what AscendCL and CUDA graphs have in common.
  kStreamCapturing,     ///< the call is not allowed on a stream that captures
  kStreamNotCapturing,  ///< the call needs a stream that captures
  kEventCaptured,       ///< the event belongs to a live capture
  kCaptureForbidden,    ///< an unsafe synchronous call while the capture mode forbids it
  kCaptureImplicit,     ///< the default stream would join a capture
  kCaptureConflict,     ///< two captures would be merged
  kCaptureDependency,   ///< a capture would depend on work outside of it
  kCaptureUnmatched,    ///< capture ended on a stream that did not begin it
  kCaptureWrongThread,  ///< capture ended on a thread that did not begin it
  kCaptureUnjoined,     ///< a forked stream was not joined before the end
  kCaptureInvalidated,  ///< an earlier failure ended the capture
  kGraphCapturing,      ///< the graph is still being captured
  kGraphRunning,        ///< the graph is still running
  kTaskGroupState,      ///< begin and end of a task group or update do not pair up
  kTaskGroupOperation,  ///< an operation that a task group or update cannot hold
  kTaskUpdateMismatch,  ///< an update launched other kernels, or another number, than were captured
  kPageableMemory,      ///< asynchronous copy of host memory that is not pinned
};

/// The enumerator's name without the `k`, e.g. "InvalidArgument".
std::string_view error_code_name(ErrorCode code);

/// The process exit code for an error: 2 for what the user can mend, 3 for a bad or missing file, 4 for resources,
/// 130 for a cancelled run, 1 for everything else.
int exit_code(ErrorCode code);

/// The one exception type of Reprise: a code, what was being done with which name and value, and the remedy if known.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) { compose(); }

  template <typename... Args>
    requires(sizeof...(Args) > 0)
  Error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args)
      : Error(code, fmt::format(format, std::forward<Args>(args)...)) {}

  /// Adds what the user can do about it. Returns *this, so that `throw Error(...).remedy("...")` reads well.
  Error&& remedy(std::string text) && {
    remedy_ = std::move(text);
    compose();
    return std::move(*this);
  }

  /// Puts "doing: " before the message: what was being done when the error came up.
  void add_context(std::string_view doing) {
    message_ = fmt::format("{}: {}", doing, message_);
    compose();
  }

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& remedy_text() const { return remedy_; }
  const char* what() const noexcept override { return full_.c_str(); }

 private:
  void compose() { full_ = remedy_.empty() ? message_ : message_ + " (" + remedy_ + ")"; }

  ErrorCode code_;
  std::string message_;
  std::string remedy_;
  std::string full_;
};

/// Throws kInternal unless the condition holds: for invariants of Reprise, not for input.
#define REPRISE_CHECK(condition)                                                                             \
  do {                                                                                                       \
    if (!(condition)) [[unlikely]]                                                                           \
      throw ::reprise::Error(::reprise::ErrorCode::kInternal, "{}:{}: check failed: {}", __FILE__, __LINE__, \
                             #condition);                                                                    \
  } while (false)

}  // namespace reprise
