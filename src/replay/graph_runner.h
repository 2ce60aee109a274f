#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile/pass_manager.h"
#include "device/device.h"
#include "graph/graph.h"
#include "ops/forward_context.h"
#include "ops/launch_labels.h"
#include "ops/registry.h"
#include "replay/buckets.h"
#include "replay/step_batch.h"
#include "replay/step_counters.h"
#include "tensor/tensor.h"

namespace reprise::replay {

/// The method that a runner runs: a model's forward pass with its KV buffers bound. Returns float32 logits
/// [rows, vocabulary].
using StepMethod = std::function<Tensor(ops::ForwardContext& context)>;

struct RunnerOptions {
  Mode mode = Mode::kFull;
  compile::PassOptions passes;  ///< of the modes that optimise
  /// Mode piecewise: operators that run eagerly, between the captured pieces of the graph.
  std::vector<std::string> splitting_ops = {"paged_attention"};
  /// One directory per compiled method is written here: graphs after each pass, captured programs; empty: none.
  std::filesystem::path debug_directory;
  /// Most batch sizes that are captured, the smallest first, and most sizes of prompt steps; others run eagerly.
  int64_t capture_limit = 64;
  /// A size whose capture took longer for others is not captured when a step needs it: the step runs eagerly, and
  /// capture_wanted() makes up for it between steps. Absent: whatever a step needs is captured in front of it.
  std::optional<double> capture_at_once_milliseconds;
  device::CaptureMode capture_error_mode = device::CaptureMode::kThreadLocal;
  bool force_recapture = false;  ///< debug: every replayed step captures its size again
  BucketOptions buckets;
  int32_t max_prefill_tokens = 512;  ///< most tokens of one step that is not a decode step
  /// A step of one sequence with exactly so many prompt tokens is captured once and replayed; without padding. See
  /// choose_prefill_sizes().
  std::vector<int32_t> prefill_graph_tokens;
  int32_t max_pages = 1;        ///< most pages of one sequence: columns of the block table
  int32_t scratch_slots = 0;    ///< slots [0, scratch_slots) are scratch: padded row i writes slot i
  bool sequence_state = false;  ///< the model keeps per-sequence state; its first slots are scratch as well
  bool poison = false;          ///< debug: NaN in the arenas between steps, 0x7FFFFFFF in unused table entries
  std::optional<device::UpdateOrder> update_order;  ///< absent: what the device prefers
  /// The method may be traced once more after each N-th replay, to prove that nothing unguarded changed; 0: never.
  int32_t retrace_every = 0;
  /// Told before each capture of a series: how many are done, of how many, and what comes next ("Capturing batches
  /// (bs=4 avail_mem=11.93 GB)").
  std::function<void(int done, int total, const std::string& text)> progress;
};

/// What captures cost.
struct CaptureReport {
  struct Bucket {
    StepKind kind = StepKind::kDecode;
    int32_t size = 0;  ///< sequences of a decode step, tokens of a prefill step
    double milliseconds = 0;
    size_t bytes = 0;      ///< of the captured graph, or of all its pieces
    int32_t pieces = 0;    ///< captured: 1, or more in mode piecewise
    int64_t launches = 0;  ///< that a replay of them makes
    /// What runs eagerly between the pieces: "28 paged_attention".
    std::string eager_operators;
    std::string failure;  ///< empty when it was captured
  };
  std::vector<Bucket> buckets;
  std::string budget;       ///< which sizes the device has room for, and the formula; empty: it has no such limit
  double milliseconds = 0;  ///< in all
  size_t graph_bytes = 0;   ///< of all captured graphs
  size_t arena_bytes = 0;   ///< of intermediates, shared by all buckets of a kind
  int64_t recaptures = 0;   ///< because of force_recapture or an update that failed; no buckets of their own
  int64_t variants = 0;     ///< captured beside a bucket's graph because a kernel chose otherwise for a step's lengths
};

/// Bytes of the device that steps work in beside weights and KV cache.
struct StepMemory {
  size_t decode = 0;   ///< the arena of compiled decode steps
  size_t prompts = 0;  ///< that of compiled steps which read prompts
  size_t eager = 0;    ///< what a step that runs eagerly has at a time, where there are any
  /// Inputs, events and whatever else is small, in blocks that are cut from larger ones of 2 MiB.
  size_t small = size_t{4} << 20;
  size_t total() const { return decode + prompts + eager + small; }
};

/// Float32 logits of the step's rows on the host: a view that is valid until the next step is issued.
struct LogitsView {
  const float* data = nullptr;
  int32_t rows = 0;
  int32_t vocabulary = 0;
  std::span<const float> row(int32_t index) const {
    return {data + static_cast<int64_t>(index) * vocabulary, static_cast<size_t>(vocabulary)};
  }
};

/// Runs steps of one method in one mode: picks the bucket, writes the static inputs with neutral padding, has the
/// update records applied and the captured graph replayed, or falls back and says why. One runner for all devices. Not
/// thread-safe: one engine thread owns it.
class GraphRunner {
 public:
  /// `names` gives tensors that the method reads the names that graphs show. `vocabulary`: columns of the logits.
  GraphRunner(const ops::Registry& registry, device::Device& device, StepMethod method, int32_t vocabulary,
              std::vector<std::pair<std::string, Tensor>> names, RunnerOptions options);
  ~GraphRunner();
  GraphRunner(const GraphRunner&) = delete;
  GraphRunner& operator=(const GraphRunner&) = delete;

  /// Captures buckets ahead (all, or those given). While the device is observed, each is replayed twice, so that a
  /// profile shows its kernels. Otherwise a bucket is captured when it is first needed. A bucket
  /// that fails costs only itself. Does nothing in modes without capture.
  void capture(std::span<const int32_t> sizes = {});

  /// The same for the sizes of prompt steps: all of them.
  void capture_prefill();

  /// Captures the size that most steps have gone without, see RunnerOptions::capture_at_once_milliseconds. False when
  /// there is none.
  bool capture_wanted();
  bool wants_capture() const;

  /// What the steps of this runner's mode take on the device, at their largest. Compiles them.
  StepMemory step_memory();
  /// Takes it, which else happens with the first step of each kind, and sees whether there is enough for those that run
  /// eagerly. kOutOfMemory.
  void reserve();

  /// Runs one step and waits for its logits. kInvalidArgument when the batch contradicts itself or exceeds a maximum.
  LogitsView run(const StepBatch& batch);

  /// The two halves of run(). issue() queues the step and may return before it has run; the batch is not needed any
  /// more then. Nothing but prepare() may be called until await() has given its logits. After an error of either half
  /// there is nothing to wait for.
  void issue(const StepBatch& batch);
  LogitsView await();

  device::Device& device() const;
  /// What the launches' labels stand for, in profiles.
  const ops::LaunchLabels& labels() const;
  const StepCounters& counters() const;
  /// How the last step ran.
  StepReason last_reason() const;
  const CaptureReport& capture_report() const;
  const std::vector<int32_t>& buckets() const;
  /// Tokens of the prompt steps that are replayed, ascending; empty in modes without capture.
  const std::vector<int32_t>& prefill_sizes() const;
  /// Calls of the method so far: tracing counts, replays do not move it.
  int64_t method_calls() const;
  /// Operators that were dispatched so far, eagerly or node by node; replays do not move it.
  int64_t operator_dispatches() const;
  /// The decode step's graph, after the passes of the mode; traced on demand.
  const graph::Graph& decode_graph();
  /// What the passes did to it.
  const std::vector<compile::PassReport>& decode_pass_reports();
  /// How many of its cores the device uses for replays of a captured size, and why; empty when it does not say.
  std::string core_choice(StepKind kind, int32_t size) const;
  /// The captured program of a bucket as text; captured on demand.
  std::string program_text(int32_t bucket);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace reprise::replay
