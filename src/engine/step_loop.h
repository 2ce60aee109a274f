#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/kv_pool.h"
#include "engine/request.h"
#include "engine/row_sampler.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/statistics.h"
#include "replay/graph_runner.h"
#include "text/tokenizer.h"

namespace reprise::engine {

/// Runs one step and returns its logits, valid until the next call: a GraphRunner, or a test's model.
using StepFunction = std::function<replay::LogitsView(const replay::StepBatch& batch)>;

/// The same in two halves, for devices that run a step while the host does something else.
struct AsynchronousSteps {
  std::function<void(const replay::StepBatch& batch)> issue;
  std::function<replay::LogitsView()> await;
};

struct StepLoopOptions {
  /// Given: a decode step is left to run when step() returns, and events are told while a step runs.
  std::optional<AsynchronousSteps> asynchronous = {};
  bool prepare_steps = true;  ///< for tests: with `asynchronous`, batches are formed ahead; changes no result
  SchedulerOptions scheduler;
  int32_t vocabulary = 0;
  std::vector<int32_t> end_token_ids;  ///< the model's own
  uint64_t seed = 0;                   ///< what seeds of requests that bring none are made from
  int sampling_threads = 1;            ///< among which rows are shared where that is worth it
  /// Time spent on captures so far, which is not counted as that of a step; may be empty.
  std::function<double()> capture_seconds;
};

/// From requests to tokens: schedules, runs steps, samples, and tells callbacks. Engine documents the members of the
/// same names. A decode step in which nothing begins or ends allocates nothing up to the sampled tokens.
class StepLoop {
 public:
  /// `pool` must outlive the loop.
  StepLoop(KvPool& pool, StepFunction step_function, std::optional<text::Tokenizer> tokenizer, StepLoopOptions options);

  /// See Engine::check().
  void check(const Request& request) const;
  RequestId new_request_id() { return next_id_++; }
  RequestId submit(Request request);
  void submit(RequestId id, Request request);
  bool cancel(RequestId id);
  void cancel_all();
  void fail_all(const Error& error);
  bool step();
  /// Waits for the step that step() has left to run, if any; what came of it is told by the next step().
  /// kFailedPrecondition in a token callback while one runs.
  void settle();
  void run_until_done();
  int32_t running() const { return scheduler_.running(); }
  int32_t waiting() const { return scheduler_.waiting(); }
  int32_t open_requests() const { return static_cast<int32_t>(sequences_.size()); }
  const text::Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  Statistics statistics() const;

 private:
  /// A moment, and what captures had taken by then.
  struct Instant {
    std::chrono::steady_clock::time_point time;
    double capture_seconds;
  };

  void check_prompt(const Request& request) const;
  void check_ends(const SamplingParameters& sampling) const;
  Instant now() const;
  static double seconds_between(const Instant& begin, const Instant& end);
  /// A step that was issued, and is not awaited yet.
  struct Flight {
    const replay::StepBatch* batch;
    Instant begin;
    std::exception_ptr failure = {};  ///< of issuing it
  };

  bool step_in_turn();
  bool step_ahead();
  bool run_decode();
  bool run_prefill();
  bool issue(const replay::StepBatch* batch, const Instant& begin);
  replay::LogitsView await();
  void finish_decode();
  void finish_prefill();
  void count_decode(const Instant& begin);
  void count_prefill(const Instant& begin, const replay::StepBatch& batch);
  /// `run` gives the logits.
  void run_step(const replay::StepBatch& batch, int64_t& tokens, const std::function<replay::LogitsView()>& run);
  void sample_rows(const replay::LogitsView& logits, const replay::StepBatch& batch, int64_t& tokens);
  void score_prompt(Sequence& sequence, const replay::LogitsView& logits, int32_t count);
  void take_row(Sequence& sequence, RowSampler::Row& row, int64_t& tokens);
  void deliver_step();
  void deliver_ended();
  /// Gives its callback what there is to tell.
  void tell(Sequence& sequence);
  void count_end(FinishReason reason);
  void retire(Sequence& sequence);

  StepFunction step_function_;
  std::optional<text::Tokenizer> tokenizer_;
  StepLoopOptions options_;
  Scheduler scheduler_;
  RowSampler sampler_;
  Statistics statistics_;
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences_;
  std::vector<RequestId> ended_;        // outside of a step, so that their last event is still to come
  std::vector<Sequence*> step_events_;  // rows of the last step
  std::vector<RowSampler::Row> rows_;   // to be sampled, in the order of their sequences
  std::optional<Flight> flight_;
  std::atomic<RequestId> next_id_ = 1;
  std::optional<Instant> last_end_;  // of the last step; absent: there was nothing to do since
  bool in_step_ = false;
  RequestId delivering_ = 0;  // whose callback runs; 0: none
  bool cancel_delivering_ = false;
};

}  // namespace reprise::engine
