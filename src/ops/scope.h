#pragma once

#include <string_view>
#include <variant>

#include "device/stream.h"

namespace reprise::ops {

class Scope;

// What model code says about where its next operators run, next to the operators themselves. Names are borrowed for the
// call. `scope` tells one open scope from another.

/// The operators up to the matching exit run on the side stream of this name.
struct EnterStream {
  Scope* scope;
  std::string_view name;
};
/// The launches up to the matching exit use at most these cores.
struct EnterCoreLimit {
  Scope* scope;
  device::CoreLimit limit;
};
struct ExitScope {
  Scope* scope;
  bool in_destructor;  ///< errors are kept for the end of the method
};
/// Marks the work so far of the current stream.
struct RecordEvent {
  std::string_view name;
};
/// Later work of the current stream comes behind the last mark of this name.
struct WaitEvent {
  std::string_view name;
};

using ScopeChange = std::variant<EnterStream, EnterCoreLimit, ExitScope, RecordEvent, WaitEvent>;

}  // namespace reprise::ops
