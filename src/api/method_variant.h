#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compile/executable.h"
#include "compile/trace_method.h"
#include "graph/alias.h"
#include "replay/capture_cache.h"
#include "replay/debug_dump.h"
#include "replay/graph_pool.h"
#include "reprise/backend.h"
#include "reprise/method_counters.h"
#include "reprise/options.h"

namespace reprise::api {

/// What the traces of one method share. All of it outlives them.
struct MethodState {
  const ops::Registry& registry;
  device::Device& device;
  device::Stream& stream;
  const compile::MethodSpec& spec;
  const MethodOptions& options;
  MethodCounters& counters;
};

/// One trace of a method: its graph behind the passes, its guards, and what was captured of it, by key.
class MethodVariant {
 public:
  /// Runs the passes of the mode, or asks the backend for its program.
  MethodVariant(const MethodState& state, compile::TracedMethod traced, const Backend* backend);
  ~MethodVariant();

  const std::vector<compile::Guard>& guards() const { return traced_.guards; }
  const graph::Graph& graph() const { return traced_.graph; }
  const std::vector<compile::PassReport>& pass_reports() const { return pass_reports_; }
  /// Of the graph as it was traced, before any pass.
  uint64_t traced_hash() const { return traced_hash_; }
  /// Those for other choices of kernels included.
  int64_t captured_graphs() const;

  /// Runs the method for arguments that fit the guards.
  std::vector<Tensor> run(std::span<const compile::Argument> arguments);
  /// One a line, with the place that it comes from.
  std::string guards_text() const;
  /// Keys, what of the arguments they hold, and what is known of inputs, lists and results.
  std::string keys_text() const;

 private:
  enum class InputKind : uint8_t {
    kCopied,     ///< a buffer of its own, into which each call's tensor is copied
    kBound,      ///< clone_input is off: the address of the first call
    kMutated,    ///< the caller's own memory, which the graph writes
    kParameter,  ///< the caller's own memory, whose address is in the key
  };
  struct Input {
    int32_t argument = 0;
    InputKind kind = InputKind::kCopied;
    std::shared_ptr<Storage> buffer;  ///< of kCopied: shared by all keys, replaced by a larger one when need be
  };
  struct Output {
    int32_t input = -1;     ///< the graph's input whose memory it looks at; -1: a result of its own, or a parameter
    bool in_arena = false;  ///< a result of its own
  };
  /// One key: a graph with every tensor in its place, captured or not.
  struct Entry {
    std::unique_ptr<compile::BoundGraph> nodes;  ///< of calls without capture
    replay::CaptureCache::Entry* captured = nullptr;
    std::vector<Tensor> inputs;        ///< what the graph reads
    std::vector<const void*> origins;  ///< the caller's address of each input at capture
    device::CoreLimit limit;
    std::shared_ptr<Storage> arena;
    std::vector<Tensor> outputs;  ///< handed out again at every call
  };

  bool captures() const { return replay::captures(state_.options.mode); }
  void classify();
  bool is_updatable(graph::ValueId list) const;
  void make_key(std::span<const compile::Argument> arguments);
  std::vector<ops::HostList> lists_of(std::span<const compile::Argument> arguments) const;
  const Tensor& argument_tensor(std::span<const compile::Argument> arguments, size_t input) const;
  void check_frozen(std::span<const compile::Argument> arguments) const;
  /// Throws for arguments whose memory a call would overwrite while it is needed.
  void check_memory(std::span<const compile::Argument> arguments) const;

  /// Whether it lies where a run of the method puts its results.
  bool is_overwritten(const Tensor& tensor) const;
  void note_arenas();

  Entry make_entry(std::span<const compile::Argument> arguments);
  Tensor bind_input(size_t input, const Tensor& given);
  /// Why an entry must be captured again.
  std::optional<RecaptureReason> recapture_reason(const Entry& entry, std::span<const compile::Argument> arguments);
  /// The entry of the key, captured if need be; null when the call must run node by node.
  Entry* captured_entry(std::span<const compile::Argument> arguments, std::span<const ops::HostList> lists);
  /// Replays, captured once more for other choices of kernels if need be; false when the call must run node by node.
  bool replay(Entry& entry, std::span<const ops::HostList> lists);
  void report_limit();
  /// A symbol, a list or the address of a parameter.
  struct KeyPart {
    std::string name;
    std::vector<int64_t> values;
  };
  /// As many for every key of this trace.
  std::vector<KeyPart> parts_of(std::span<const int64_t> key) const;
  std::string describe_key(std::span<const int64_t> key) const;
  void forget(std::map<std::vector<int64_t>, Entry>::iterator entry);
  Entry& node_entry(std::span<const compile::Argument> arguments);
  void copy_inputs(Entry& entry, std::span<const compile::Argument> arguments);
  void warn_of_overwritten_outputs(std::span<const compile::Argument> arguments);
  std::vector<Tensor> results(Entry& entry, std::span<const compile::Argument> arguments);
  Tensor clone(const Tensor& tensor);
  std::vector<Tensor> run_backend(std::span<const compile::Argument> arguments);

  const MethodState& state_;
  compile::TracedMethod traced_;
  uint64_t traced_hash_ = 0;
  std::vector<compile::PassReport> pass_reports_;
  replay::DebugDump dump_;
  std::unique_ptr<BackendProgram> backend_;

  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  /// Constants of the method, such as a cache that it holds, with their memory.
  std::vector<std::pair<graph::MemoryRange, graph::ValueId>> written_parameters_;
  std::vector<bool> list_in_key_;
  std::vector<int64_t> symbols_;  ///< of this call
  std::vector<int64_t> key_;      ///< of this call

  std::shared_ptr<replay::GraphPool> pool_;  ///< null: each key has memory of its own
  std::map<std::vector<int64_t>, Entry> entries_;
  std::unique_ptr<Entry> node_entry_;  ///< the last one that ran node by node
  std::vector<int64_t> node_key_;
  std::set<std::vector<int64_t>> failed_;
  int dumped_programs_ = 0;
  std::set<const Storage*> arenas_;    ///< of all entries
  const Entry* last_entry_ = nullptr;  ///< whose results the caller may still hold
  bool limit_reported_ = false;
  bool overwriting_reported_ = false;
  std::unique_ptr<replay::CaptureCache> cache_;  ///< last: captured graphs go before the memory that they name
};

}  // namespace reprise::api
