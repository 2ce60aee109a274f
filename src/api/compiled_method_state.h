#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/library_state.h"
#include "api/method_variant.h"
#include "compile/trace_general.h"
#include "ops/eager_dispatcher.h"
#include "reprise/compiled_method.h"

namespace reprise {

class CompiledMethod::Implementation {
 public:
  Implementation(std::shared_ptr<Library::Implementation> library, compile::MethodSpec spec, MethodOptions options);
  /// With a graph in place of the method.
  Implementation(std::shared_ptr<Library::Implementation> library, compile::MethodSpec spec, MethodOptions options,
                 compile::TracedMethod traced);

  std::vector<Tensor> call(std::span<const compile::Argument> arguments);
  const MethodCounters& counters() const { return counters_; }
  int64_t variants() const { return static_cast<int64_t>(variants_.size()); }
  const api::MethodVariant& variant(int64_t index) const;
  std::string explain() const;

 private:
  struct Trace {
    std::unique_ptr<api::MethodVariant> variant;
    compile::DynamicArguments dynamic;
    // With retrace_every only, of the traced graph:
    std::string text;
    std::vector<const void*> parameters;  ///< addresses
    std::vector<compile::Guard> telling;  ///< guards that not all traces share
  };

  void check(std::span<const compile::Argument> arguments) const;
  std::vector<Tensor> run(std::span<const compile::Argument> arguments);
  Trace* find(std::span<const compile::Argument> arguments);
  /// Another trace; null beyond the recompile limit.
  Trace* trace(std::span<const compile::Argument> arguments);
  /// Of the trace that misses the arguments least, and among those of the latest: they say best what has changed.
  const std::vector<compile::Guard>& nearest_guards(std::span<const compile::Argument> arguments) const;
  /// Makes symbolic what these guards say has changed.
  void widen(compile::DynamicArguments& dynamic, std::span<const compile::Guard> guards,
             std::span<const compile::Argument> arguments) const;
  /// Traces; where that breaks on a size that has just become symbolic, with the sizes of before, which `dynamic` has
  /// then.
  compile::GeneralTrace run_trace(std::span<const compile::Argument> arguments, compile::DynamicArguments& dynamic);
  void add_trace(compile::TracedMethod traced, compile::DynamicArguments dynamic);
  void check_retrace(const Trace& trace, std::span<const compile::Argument> arguments);
  std::vector<Tensor> run_eager(std::span<const compile::Argument> arguments);
  const Backend* backend() const;

  std::shared_ptr<Library::Implementation> library_;
  compile::MethodSpec spec_;
  MethodOptions options_;
  MethodCounters counters_;
  api::MethodState state_;
  compile::DynamicArguments dynamic_;
  std::vector<bool> fixed_;  ///< arguments whose size the method uses as a number
  std::vector<Trace> variants_;
  std::unique_ptr<ops::EagerDispatcher> eager_;
  bool limit_reported_ = false;
};

}  // namespace reprise
