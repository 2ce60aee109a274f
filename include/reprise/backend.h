#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compile/compile_options.h"
#include "device/device.h"
#include "graph/graph.h"
#include "ops/host_list.h"
#include "ops/registry.h"

namespace reprise {

/// One call of a backend's program.
struct BackendCall {
  std::span<const int64_t> symbols;      ///< the value of each of the graph's symbols
  std::span<const Tensor> inputs;        ///< in the graph's order
  std::span<const ops::HostList> lists;  ///< in the graph's order
  device::Stream& stream;
};

/// What a backend makes of a graph.
class BackendProgram {
 public:
  virtual ~BackendProgram() = default;
  /// Queues one run; results in the order of the graph's outputs.
  virtual std::vector<Tensor> run(const BackendCall& call) = 0;
};

/// What a backend works with.
struct BackendContext {
  const ops::Registry& registry;
  device::Device& device;
  const compile::CompileOptions& options;
};

/// Makes a program of a traced graph, on which no pass has run: compile::PassManager has the standard ones.
using Backend = std::function<std::unique_ptr<BackendProgram>(graph::Graph graph, const BackendContext& context)>;

}  // namespace reprise
