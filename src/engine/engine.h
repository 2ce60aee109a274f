#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "engine/expert_balancer.h"
#include "engine/kv_pool.h"
#include "engine/prompt_logits.h"
#include "engine/request.h"
#include "engine/statistics.h"
#include "engine/step_log.h"
#include "model/model.h"
#include "ops/registry.h"
#include "replay/graph_runner.h"
#include "text/tokenizer.h"

namespace reprise::engine {

/// Requests that run at a time at most. A million rows would be a thousand times what one device serves; more would
/// overflow numbers of slots.
inline constexpr int32_t kMostRunning = 1 << 20;

struct EngineOptions {
  replay::Mode mode = replay::Mode::kFull;
  /// Which batch sizes are captured; max_running is taken from below, default_max from the device.
  replay::BucketOptions buckets;
  int32_t max_running = 8;           ///< most requests that run at a time
  int32_t max_prefill_tokens = 512;  ///< most prompt tokens of one step: the size of a chunk
  /// Prompt steps that are captured and replayed: a long prompt is cut into the largest of these sizes that fits. See
  /// RunnerOptions::prefill_graph_tokens.
  std::vector<int32_t> prefill_graph_tokens;
  int32_t max_context = 0;  ///< most tokens of a request, prompt and output; 0: the model's maximum
  /// Capacity of the KV cache; see kv_tokens_for(). 0: max_running requests of max_context tokens, but at most half of
  /// the device's free memory.
  int64_t kv_tokens = 0;
  int32_t page_size = 16;
  /// Full pages of the KV cache are kept for later requests that begin with the same tokens, which changes no result.
  /// Models that keep state for each sequence go without.
  bool prefix_cache = true;
  bool poison = false;                 ///< debug: NaN in everything that must not be read
  uint64_t shuffle_pages = 0;          ///< debug: not 0: seed of a random order of pages
  std::vector<int32_t> end_token_ids;  ///< the model's own: they end a request unless ignore_eos
  uint64_t seed = 0;                   ///< what seeds of requests that bring none are made from
  /// Absent: as the device prefers.
  std::optional<device::UpdateOrder> update_order;
  /// A decode step runs on while its events are told, and between two turns; the next one waits for it. Changes no
  /// result. Absent: where the device does not run on the host's own cores.
  std::optional<bool> overlap;
  /// Threads that draw the tokens of a step, of which the engine's is one. Changes no result. 0: with overlap as many
  /// as there are CPUs, up to 8, as they have nothing else to do then; else 1.
  int sampling_threads = 0;
  int32_t retrace_every = 0;
  compile::PassOptions passes;  ///< of the modes that optimise
  int64_t capture_limit = 64;   ///< see RunnerOptions::capture_limit
  /// For serving: sizes whose capture takes longer run eagerly at first, and are captured between steps, those that
  /// most steps want first, in at most half of the time. Absent: whatever a step needs is captured in front of it.
  std::optional<double> capture_at_once_milliseconds;
  std::optional<device::CaptureMode> capture_error_mode;         ///< absent: the runner's
  bool force_recapture = false;                                  ///< debug: every decode step captures again
  std::vector<std::string> splitting_ops = {"paged_attention"};  ///< of mode piecewise
  std::filesystem::path debug_directory;                         ///< see RunnerOptions::debug_directory
  /// capture() is profiled, and its profile written here, see replay::ProfileRecording; empty: none.
  std::filesystem::path capture_profile_directory;
  ExpertBalanceOptions experts;  ///< of models whose experts are counted
  /// See RunnerOptions::progress.
  std::function<void(int done, int total, const std::string& text)> progress;
};

/// A model that serves requests: KV pool, scheduler, graph runner, sampler, and the loop of steps. Not thread-safe: one
/// thread owns it.
class Engine {
 public:
  /// `device`, `registry` (with the device's kernels) must outlive the engine. `tokenizer` may be absent: then there is
  /// no text, and stop strings are refused. kInvalidArgument for options out of range, kOutOfMemory.
  /// Where the device's memory is all that there is, what the largest steps work in is taken at once. A KV cache
  /// without a size of its own is made smaller until both fit; else kOutOfMemory tells the numbers.
  static std::unique_ptr<Engine> create(device::Device& device, const ops::Registry& registry,
                                        std::shared_ptr<const model::Model> model,
                                        std::optional<text::Tokenizer> tokenizer, EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Captures ahead what decode steps of up to `batch` requests replay (0: every bucket) and what prompt steps do.
  /// What is not captured here is captured when it is first needed.
  void capture(int32_t batch = 0);

  /// kInvalidArgument for parameters or a prompt out of range, kResourceExhausted for a request that can never fit into
  /// the KV cache. May be called from any thread.
  void check(const Request& request) const;
  /// Checks a request and queues it.
  RequestId submit(Request request);
  /// An id for a request that is submitted later. May be called from any thread.
  RequestId new_request_id() const;
  /// Queues a request that was checked, under an id of its own.
  void submit(RequestId id, Request request);
  /// Ends a request: at once if it waits, else with the current or next step(). False when there is none of that id.
  bool cancel(RequestId id);
  void cancel_all();
  /// After an exception of step(): ends every request with an event that carries the error. The engine is good for
  /// nothing more.
  void fail_all(const Error& error);
  /// One turn: a decode step of all requests that produce, and at most one step that reads prompts. False when there
  /// was nothing to do. Failures of a step end its requests, with an event; thrown are only errors of Reprise itself,
  /// and device::DeviceLost. With `overlap`, the turn ends when the next decode step is issued, whose results are those
  /// of the next turn.
  bool step();
  /// Waits for a step that runs between turns, for those who look at the device's memory or time it. Members that need
  /// the device do so themselves: they, and this, are kFailedPrecondition in a token callback while a step runs.
  void settle();
  void run_until_done();
  /// One step of any kind past the requests, for measurements: the caller sees to its pages and tokens.
  replay::LogitsView run(const replay::StepBatch& batch);
  int32_t running() const;
  int32_t waiting() const;
  int32_t open_requests() const;  ///< whose last event is still to come

  /// Profiles what runs from here on, for `steps` steps (0: until stop_profile()), and writes the files of
  /// replay::ProfileRecording. kFailedPrecondition while one is running, kIo when the directory cannot be made.
  void start_profile(std::filesystem::path directory, int64_t steps = 0);
  /// Ends it. Gives its tables and where its files are, also of one that has ended by its steps. kFailedPrecondition
  /// without any, kIo.
  std::string stop_profile();

  /// Float32 logits [T, vocabulary] of every position of `ids`, read in chunks or token by token. Needs free pages.
  std::vector<float> prompt_logits(std::span<const int32_t> ids, const PromptLogitsOptions& options = {});

  Statistics statistics() const;
  const EngineOptions& options() const;  ///< with what was filled in
  const model::Model& model() const;
  /// Forgets what the prefix cache keeps.
  void flush_prefix_cache();
  /// Null when there is none.
  const text::Tokenizer* tokenizer() const;
  KvPool& kv_pool();
  /// For counters, capture_report(), decode_graph() ...
  replay::GraphRunner& runner();
  /// The last steps, those of run() and prompt_logits() as well.
  const StepLog& step_log() const;
  /// What was moved among the model's experts.
  const ExpertBalancer& expert_balancer() const;

 private:
  struct Parts;
  static std::unique_ptr<Parts> make_fitting_parts(device::Device& device, const ops::Registry& registry,
                                                   const std::shared_ptr<const model::Model>& model,
                                                   const std::optional<text::Tokenizer>& tokenizer,
                                                   EngineOptions options, bool any_kv_tokens);
  explicit Engine(std::unique_ptr<Parts> parts);
  void capture_ahead(int32_t batch);
  std::unique_ptr<Parts> parts_;
};

}  // namespace reprise::engine
