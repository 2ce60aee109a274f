#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compile/argument.h"
#include "graph/graph.h"
#include "reprise/method_counters.h"
#include "tensor/tensor.h"

namespace reprise {

/// A method that was compiled: traced at its first call, and again when a guard fails; each trace captured once for
/// every key, and replayed. Calls queue their work on the library's stream and may return before it has run. Copies
/// share one state. One thread at a time.
class CompiledMethod {
 public:
  class Implementation;
  explicit CompiledMethod(std::shared_ptr<Implementation> implementation)
      : implementation_(std::move(implementation)) {}

  /// Results are overwritten by later calls unless `clone_output` is set; see docs/options.md. Lists are read before
  /// the call returns; tensors must stay alive until the work is done. Throws kInvalidArgument for arguments of another
  /// number or kind; what tracing throws (kGraphBreak and others), after which the method can be called again.
  std::vector<Tensor> operator()(std::span<const compile::Argument> arguments);

  const MethodCounters& counters() const;
  /// Traces so far. Each has a graph, guards and captured graphs by key.
  int64_t variants() const;
  /// The graph of a trace, after the passes.
  const graph::Graph& graph(int64_t variant = 0) const;
  /// The guards of a trace, one a line: "L12 batch == 4".
  std::string guards_text(int64_t variant = 0) const;
  /// Captured graphs of a trace.
  int64_t captured_graphs(int64_t variant = 0) const;
  /// For people: passes with what they left alone and why, guards, keys, counters.
  std::string explain() const;

 private:
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace reprise
