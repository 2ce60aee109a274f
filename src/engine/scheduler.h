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

/// Which sequences run, and what they read in a step. The more urgent ones come first: those of a higher priority, and
/// among equals those that were asked first; none overtakes a more urgent one into the KV cache.
///
/// A sequence is admitted when there are pages for what it has to read, and as many more as the running ones are
/// expected to grow by. The others come one by one as tokens are produced. When there is none left, the least urgent
/// sequence is preempted: it loses its pages, waits, and is computed again from its tokens, which changes no result.
/// Each preemption raises the expectation, so that they stay few; the most urgent sequence is never preempted, so there
/// is always progress.
class Scheduler {
 public:
  Scheduler(KvPool& pool, const SchedulerOptions& options);

  /// Throws kInvalidArgument when the request exceeds max_context, kResourceExhausted when it would not fit into an
  /// empty pool.
  void check_fits(const RequestSize& size) const;
  /// Lets a sequence wait. It must stay where it is until remove().
  void add(Sequence& sequence);
  /// Takes a sequence out, wherever it is, and gives up what it holds; nothing happens when it was taken out before.
  void remove(Sequence& sequence);

  /// Lets waiting sequences run, in order, as long as there is room. What the prefix cache holds of them is not read
  /// again, but for the last token.
  void admit();
  /// Forms a decode step: the next token of each sequence whose prompt is read; may preempt. Null when there is none.
  /// The batch is valid until the next call of a form function.
  const replay::StepBatch* form_decode();
  /// While the decode step that was formed last runs: forms the next one ahead, as if nothing came or went but those
  /// that have all their tokens then. Changes nothing else: no page is taken, which might evict another or preempt, but
  /// is filled in with the token. form_decode() then takes the batch if it is just what it would form, and forms its
  /// own otherwise.
  void prepare_decode();
  /// Forms a step of the next prompt tokens, at most max_prefill_tokens of them. The most urgent prompt gets what the
  /// others leave, at least half of them; the others come in the order of what they have left, the shortest first. Who
  /// begins as a more urgent one goes on waits until that has read what they share. Where steps are replayed, as much
  /// of the most urgent prompt as the largest size holds is a step of its own, in turn with those that are shorter than
  /// every size. A step that gives the logits of all tokens is one prompt's own. Null when there are none.
  const replay::StepBatch* form_prefill();
  /// The sequences of the last step that was formed, in its order.
  std::span<Sequence* const> step_sequences() const { return step_sequences_; }
  /// Lets the prefix cache know of the pages that the sequence has filled.
  void keep_full_pages(Sequence& sequence);

  int32_t running() const { return static_cast<int32_t>(running_.size()); }
  int32_t waiting() const { return static_cast<int32_t>(waiting_.size()); }
  int64_t cached_tokens() const { return cached_tokens_; }  ///< of prompts, that were not read again
  int64_t preemptions() const { return preemptions_; }
  int64_t prepared_steps() const { return prepared_steps_; }              ///< decode steps that were formed ahead
  int64_t dropped_preparations() const { return dropped_preparations_; }  ///< formed ahead in vain

 private:
  /// Prompt tokens that a sequence reads in the step.
  struct Share {
    Sequence* sequence;
    int32_t tokens;
  };

  static bool is_more_urgent(const Sequence* a, const Sequence* b);
  bool try_admit(Sequence& sequence);
  int32_t expected_growth(const Sequence& sequence) const;
  void find_cached_pages(Sequence& sequence);
  void find_computed_pages(Sequence& sequence);
  void skip(Sequence& sequence, int32_t tokens);
  std::span<const int32_t> next_cachable_page(const Sequence& sequence) const;
  bool waits_for(const Sequence& sequence, const Sequence& reader) const;
  bool provide_next_page(Sequence& sequence);
  void give_up_memory(Sequence& sequence);
  void preempt(Sequence& sequence);
  void find_readers();
  int32_t replayed_size(const Sequence& sequence) const;
  void find_joining();
  void share_budget(bool first_joins);
  void add_to_step(Sequence& sequence, int32_t limit);
  bool take_prepared();
  bool is_prepared() const;

  KvPool& pool_;
  SchedulerOptions options_;
  std::deque<Sequence*> waiting_;   // the most urgent first
  std::vector<Sequence*> running_;  // the most urgent first
  double growth_share_;             // of the tokens that sequences may still produce, that is expected of them
  StepBuilder builder_;
  std::vector<Sequence*> step_sequences_;
  struct {
    StepBuilder builder;
    std::vector<Sequence*> sequences;
    std::vector<RequestId> ids;  // of them: a sequence may go, and another one come where it was
    bool made = false;
    bool holds = false;  // the pages are the same
  } ahead_;
  std::vector<Share> readers_;
  std::vector<Share*> by_length_;
  bool others_turn_ = false;  // the last step of prompts was a replayed one
  int64_t cached_tokens_ = 0;
  int64_t preemptions_ = 0;
  int64_t prepared_steps_ = 0;
  int64_t dropped_preparations_ = 0;
};

}  // namespace reprise::engine
