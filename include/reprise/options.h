#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile_options.h"
#include "device/device.h"
#include "replay/graph_pool.h"
#include "replay/step_counters.h"

namespace reprise {

using replay::GraphPool;
using replay::Mode;

/// When sizes become symbols of a graph, so that another size needs no other trace.
enum class Dynamic {
  kAutomatic,  ///< traced for the sizes that come first; what changes later becomes symbolic
  kAlways,     ///< symbolic at once; 0 and 1 stay special
  kNever,      ///< traced again for every size
};

/// How a method is compiled and run.
struct MethodOptions {
  std::string name = "method";                   ///< in logs, dumps and graphs: letters, digits, '_' and '.'
  std::vector<std::string> argument_names = {};  ///< for guards and graphs; empty: "a0", "a1" ...
  Mode mode = Mode::kFull;
  Dynamic dynamic = Dynamic::kAutomatic;
  /// npugraph_ex's options, see docs/options.md.
  compile::CompileOptions compile = {};
  /// Mode piecewise: the operators that run eagerly, between the captured pieces.
  std::vector<std::string> splitting_ops = {"paged_attention"};
  /// A backend of Library::register_backend() that runs the traced graph instead of the mode; "": none.
  std::string backend = {};
  /// Traces of the method; calls that would need another one run eagerly, counted and logged.
  int recompile_limit = 8;
  /// npugraph_ex's use_graph_pool: memory that captured graphs of several methods share. They must not run at the same
  /// time then, and a result lasts until any of them runs again.
  std::shared_ptr<GraphPool> pool = {};
  /// One directory per trace of a method is written here (graphs after each pass, guards, keys, captured programs);
  /// empty: what REPRISE_DEBUG_DIR says, or none.
  std::filesystem::path debug_directory = {};
  /// Debug: trace again after every N-th call of a compiled method, to prove that nothing unguarded changed; 0: never.
  int retrace_every = 0;
  /// Absent: what the device prefers.
  std::optional<device::UpdateOrder> update_order = {};
};

}  // namespace reprise
