#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compile/executable.h"
#include "compile/pass_manager.h"
#include "device/device.h"
#include "ops/forward_context.h"
#include "ops/registry.h"
#include "replay/debug_dump.h"
#include "replay/static_inputs.h"

namespace reprise::replay {

/// Calls a method with a context and counts the calls.
using CountedMethod = std::function<Tensor(ops::ForwardContext&)>;

/// Names that graphs show for the tensors of a method.
using ParameterNames = std::vector<std::pair<std::string, Tensor>>;

/// One traced form of a method (logits of each sequence's last token, or of all), planned for the largest step, with
/// its static inputs and, once it is reserved, its arena.
class StepProgram {
 public:
  struct Options {
    std::string name;
    StepLimits limits;
    bool all_logits = false;
    bool optimise = true;  ///< run the standard passes
    compile::PassOptions passes;
    std::filesystem::path debug_directory;  ///< see DebugDump; empty: nothing is written
    bool poison = false;
    ops::LaunchLabels* labels = nullptr;  ///< of launches, for profiles; must outlive what is bound
  };

  StepProgram(const ops::Registry& registry, device::Device& device, const CountedMethod& method,
              const ParameterNames& names, Options options);

  const compile::Executable& executable() const { return *executable_; }
  DebugDump& dump() { return dump_; }
  /// What the passes did; empty where none ran.
  const std::vector<compile::PassReport>& pass_reports() const { return pass_reports_; }
  StaticInputs& inputs() { return inputs_; }
  size_t arena_bytes() const { return executable_->arena_bytes(); }
  /// Takes the arena, which whatever is bound lies in. Does nothing when that was done. kOutOfMemory.
  void reserve();

  /// The graph for a step's sizes, with its tensors in the static inputs and the arena. After reserve().
  std::unique_ptr<compile::BoundGraph> bind(int32_t tokens, int32_t sequences);
  /// Fills the arena with NaN.
  void poison_arena(device::Stream& stream);
  /// Traces again and throws kInternal when another graph comes out: something that the method depends on changed.
  void check_retrace() const;

 private:
  graph::Graph trace_method() const;
  /// Traces and runs the passes, whose reports are returned; writes all of it into a dump that is enabled.
  graph::Graph compile_method(DebugDump& dump, std::vector<compile::PassReport>& reports) const;

  const ops::Registry& registry_;
  device::Device& device_;
  const CountedMethod& method_;
  const ParameterNames& names_;
  Options options_;
  StaticInputs inputs_;
  std::vector<compile::PassReport> pass_reports_;
  DebugDump dump_;
  std::unique_ptr<compile::Executable> executable_;
  std::shared_ptr<device::Arena> arena_;
};

}  // namespace reprise::replay
