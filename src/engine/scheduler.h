#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/kv_pool.h"
#include "engine/sequence.h"
#include "engine/step_builder.h"

namespace reprise::engine {

struct SchedulerOptions {
  int32_t max_running = 8;
  int32_t max_prefill_tokens = 512;  ///< most prompt tokens of one step
  int32_t max_context = 4096;        ///< most tokens of a request, prompt and output
  /// Tokens of prompt steps that are replayed, ascending and at most max_prefill_tokens; may be empty.
  std::vector<int32_t> replayed_sizes = {};
};

/// First come, first served. A request is admitted when fewer than max_running run and the pages for its prompt and
/// all its output are free: it can then never run out of pages, nobody is ever preempted, and a request that is smaller
/// never overtakes. The price is that pages are reserved for output that may never come.
class Scheduler {
 public:
  Scheduler(KvPool& pool, const SchedulerOptions& options);

  /// Throws kInvalidArgument when the request exceeds max_context, kResourceExhausted when it would not fit into an
  /// empty pool.
  void check_fits(const RequestSize& size) const;
  /// Puts a sequence at the end of the queue. It must stay where it is until remove().
  void add(Sequence& sequence);
  /// Takes a sequence out, wherever it is, and frees what it holds; nothing happens when it was taken out before.
  void remove(Sequence& sequence);

  /// Lets waiting sequences run, in order, as long as there is room.
  void admit();
  /// Forms a decode step: the next token of each sequence whose prompt is read. Null when there is none. The batch is
  /// valid until the next call of a form function.
  const replay::StepBatch* form_decode();
  /// Forms a step of the next prompt tokens, at most max_prefill_tokens of them: the rest of the oldest prompt, then
  /// the next prompt, and so on. Where steps are replayed, as much of the oldest prompt as the largest size holds is a
  /// step of its own, and what is left of prompts goes together. Null when there are none.
  const replay::StepBatch* form_prefill();
  /// The sequences of the last step that was formed, in its order.
  std::span<Sequence* const> step_sequences() const { return step_sequences_; }

  int32_t running() const { return static_cast<int32_t>(running_.size()); }
  int32_t waiting() const { return static_cast<int32_t>(waiting_.size()); }

 private:
  /// Prompt tokens of the sequence that no step has read.
  static int32_t unread(const Sequence& sequence) { return sequence.prompt_length() - sequence.computed(); }
  void add_to_step(Sequence& sequence, int32_t limit);
  int32_t pages_of(const Sequence& sequence) const;

  KvPool& pool_;
  SchedulerOptions options_;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;  // by admission
  StepBuilder builder_;
  std::vector<Sequence*> step_sequences_;
};

}  // namespace reprise::engine
