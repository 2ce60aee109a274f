#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/stream.h"
#include "ops/scope.h"

namespace reprise::ops {

/// The open scopes of a method, as dispatchers keep them. Streams are numbers here; 0 is the method's own.
class ScopeStack {
 public:
  ScopeStack() = default;
  ScopeStack(const ScopeStack&) = delete;
  ScopeStack& operator=(const ScopeStack&) = delete;
  /// Scopes that are still open end without effect.
  ~ScopeStack() { detach(); }

  /// Throws kInvalidArgument for a name of other characters than a graph can hold; `what` is "stream" or "event".
  static void check_name(std::string_view name, std::string_view what);

  void enter_stream(Scope* scope, int32_t stream, std::source_location where);
  /// Throws kInvalidArgument for a limit below 1 or, where `cores` is known (not 0), above it.
  void enter_core_limit(Scope* scope, device::CoreLimit limit, int cores, std::source_location where);
  /// kGraphBreak for a scope that is not the innermost; it is closed all the same. In a destructor the error is kept.
  void exit(const ExitScope& change);
  /// Ends the method: throws a kept error, or kGraphBreak for a scope that is still open. Everything is closed then.
  void finish();

  bool empty() const { return open_.empty(); }
  int32_t stream() const { return open_.empty() ? 0 : open_.back().stream; }
  /// The innermost one; zeros without any.
  device::CoreLimit core_limit() const { return open_.empty() ? device::CoreLimit{} : open_.back().limit; }

 private:
  struct Open {
    Scope* scope;
    const char* what;
    int32_t stream;
    device::CoreLimit limit;
    std::source_location where;
  };
  void detach();

  std::vector<Open> open_;
  std::optional<Error> fault_;
};

/// "attention.cc:42".
std::string source_text(const std::source_location& where);

}  // namespace reprise::ops
