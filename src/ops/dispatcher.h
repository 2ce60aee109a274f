#pragma once

#include <source_location>
#include <span>
#include <string_view>

#include "ops/op_def.h"

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
};

}  // namespace reprise::ops
