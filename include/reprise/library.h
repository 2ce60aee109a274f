#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/replacement.h"
#include "compile/trace_method.h"
#include "device/device.h"
#include "graph/graph.h"
#include "ops/forward_context.h"
#include "ops/registry.h"
#include "reprise/backend.h"
#include "reprise/compiled_method.h"
#include "reprise/options.h"
#include "tensor/tensor.h"

namespace reprise {

/// How much compiled methods check before they use a graph again.
enum class Stance {
  kDefault,
  /// Only what tells the traces of a method apart. Wrong arguments then give wrong results, or worse: for after the
  /// warm-up, when every size that comes has been seen.
  kSkipGuardEvalUnsafe,
};

/// Undoes a change when it ends. Of changes of one kind the one that was made last holds, in whatever order they end.
class [[nodiscard]] Scope {
 public:
  explicit Scope(std::function<void()> undo) : undo_(std::move(undo)) {}
  ~Scope() { close(); }
  Scope(Scope&& other) noexcept : undo_(std::exchange(other.undo_, nullptr)) {}
  Scope& operator=(Scope&&) = delete;
  void close() {
    if (undo_) std::exchange(undo_, nullptr)();
  }

 private:
  std::function<void()> undo_;
};

/// What compiled methods share: a device with its stream, the operators, and what a program has registered. Copies
/// share one state, which lives as long as any compiled method does. One thread at a time.
class Library {
 public:
  class Implementation;

  /// A library on a device of this build: "auto", "cpu", "ascend" or "ascend:N". `threads` of the CPU, 0: as many as
  /// its quota and affinity allow. Throws kInvalidArgument for other names, kNotFound without such a device.
  static Library open(std::string_view device = "auto", int threads = 0);
  /// A library on a device that the caller made, with operators that have kernels for it.
  Library(std::unique_ptr<device::Device> device, ops::Registry registry);

  /// Adds an operator of the caller's own: schema, shape function, reference, kernels (see reprise/cpu_kernel.h) and,
  /// for a host-tiled one, its plan. Throws kInvalidArgument for a name that is taken.
  ops::OpDef& register_operator(ops::OpDef op);
  /// Adds a fusion to all methods compiled later; it is tried before the catalogue's. Throws kInvalidArgument for a
  /// name that is taken, or a pattern that cannot be one.
  void register_replacement(compile::ReplacementRule rule);
  /// Adds a backend for MethodOptions::backend. Throws kInvalidArgument for a name that is taken or is a mode's.
  void register_backend(std::string name, Backend backend);

  /// Compiles a callable `Result(Context&, arguments...)`. Arguments: Tensor, Parameter (a weight), HostList, Dim (an
  /// integer that may become symbolic), int64_t, double, bool, std::string; results: Tensor, std::array or std::vector
  /// of them. Tensors that the callable holds itself are constants of its graph. Nothing is traced before the first
  /// call. Throws kInvalidArgument for options that contradict each other. Defined in reprise/compile.h.
  template <typename Callable>
  auto compile(Callable callable, MethodOptions options = {},
               std::source_location where = std::source_location::current());
  /// The same without types.
  CompiledMethod compile_method(compile::MethodSpec spec, MethodOptions options);
  /// The same for a graph that is there already: its inputs are the arguments, tensors first, then host lists.
  /// Arguments that do not fit the graph are errors, not reasons to trace again.
  CompiledMethod compile_graph(graph::Graph graph, MethodOptions options = {},
                               std::source_location where = std::source_location::current());

  /// For all compiled methods of the library, until the scope ends.
  Scope set_stance(Stance stance);
  /// Work queued on the library's stream uses at most these cores until the scope ends; captured graphs are captured
  /// again for it. Inside of a method: ops/scopes.h. Throws kInvalidArgument beyond the device's cores.
  Scope limit_core_num(int matrix_cores, int vector_cores = 0);

  /// For operator calls outside of a compiled method, which are queued at once: to pack weights, for one. Its state
  /// is the library's, which must outlive it; register operators with kernels before they are called.
  ops::ForwardContext eager() const;

  device::Device& device() const;
  device::Stream& stream() const;
  const ops::Registry& registry() const;
  /// Waits for all work of the stream, and throws what failed in it.
  void synchronize() const;

  /// A tensor with undefined contents.
  Tensor empty(const TensorMeta& meta) const;
  /// A tensor with these contents, given in row-major order; the number of bytes must fit.
  Tensor from_bytes(const TensorMeta& meta, std::span<const std::byte> bytes) const;
  /// Contents of a contiguous tensor, when all work of the stream is done.
  std::vector<std::byte> to_bytes(const Tensor& tensor) const;
  Tensor from_floats(const Shape& shape, std::span<const float> values) const;
  std::vector<float> to_floats(const Tensor& tensor) const;
  /// int32, as operators take ids, positions and slots.
  Tensor from_integers(const Shape& shape, std::span<const int32_t> values) const;
  std::vector<int32_t> to_integers(const Tensor& tensor) const;

 private:
  /// Checks the options and completes them with what is registered.
  void prepare(compile::MethodSpec& spec, MethodOptions& options) const;

  std::shared_ptr<Implementation> implementation_;
};

}  // namespace reprise
