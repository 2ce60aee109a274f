#pragma once

#include <source_location>
#include <span>
#include <string_view>

#include "ops/op_def.h"
#include "ops/scope.h"

namespace reprise::ops {

/// Where operator calls of model code go: to the device at once (eager), or into a graph (tracing).
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  /// Finds the operator by name, checks the arguments by its shape function, and makes the outputs. `where` is the line
  /// of model code, for graphs and messages.
  virtual void dispatch(std::string_view op, std::span<const Tensor> inputs, std::span<const HostList> lists,
                        std::span<const Attribute> attributes, std::span<Tensor> outputs,
                        std::source_location where) = 0;
  /// Streams, events and core limits of model code: scopes.h has the calls. Throws kUnsupported unless overridden.
  virtual void scope(const ScopeChange& change, std::source_location where);
};

}  // namespace reprise::ops
