#include "engine/scheduler.h"

#include <algorithm>

#include "base/error.h"
#include "replay/buckets.h"

namespace reprise::engine {

Scheduler::Scheduler(KvPool& pool, const SchedulerOptions& options) : pool_(pool), options_(options), builder_(pool) {
  const auto require = [](bool allowed, const char* field, int32_t value) {
    if (!allowed) throw Error(ErrorCode::kInvalidArgument, "{} is {}, but must be at least 1", field, value);
  };
  require(options.max_running >= 1, "max_running", options.max_running);
  require(options.max_prefill_tokens >= 1, "max_prefill_tokens", options.max_prefill_tokens);
  require(options.max_context >= 1, "max_context", options.max_context);
  REPRISE_CHECK(options.replayed_sizes.empty() || options.replayed_sizes.back() <= options.max_prefill_tokens);
  running_.reserve(static_cast<size_t>(options.max_running));
  step_sequences_.reserve(static_cast<size_t>(options.max_running));
  builder_.reserve(std::max(options.max_running, options.max_prefill_tokens), options.max_running,
                   std::min(pool.usable_pages(), pool.pages_for(options.max_context)));
}

void Scheduler::check_fits(const RequestSize& size) const {
  const int64_t tokens = int64_t{size.prompt_tokens} + size.max_new_tokens;
  if (tokens > options_.max_context) {
    throw Error(ErrorCode::kInvalidArgument, "a prompt of {} tokens and max_new_tokens {} exceed the context of {}",
                size.prompt_tokens, size.max_new_tokens, options_.max_context)
        .remedy("shorten the prompt, or lower max_new_tokens");
  }
  const int32_t pages = pool_.pages_for(size.kv_tokens());
  if (pages > pool_.usable_pages()) {
    throw Error(ErrorCode::kResourceExhausted,
                "a prompt of {} tokens and max_new_tokens {} need {} pages of the KV cache, which has {} of {} tokens",
                size.prompt_tokens, size.max_new_tokens, pages, pool_.usable_pages(), pool_.page_size())
        .remedy("lower max_new_tokens, or give the KV cache more tokens");
  }
}

int32_t Scheduler::pages_of(const Sequence& sequence) const { return pool_.pages_for(sequence.size().kv_tokens()); }

void Scheduler::add(Sequence& sequence) {
  // Reserved here, so that admission in the middle of decoding has less to do.
  sequence.pages.reserve(static_cast<size_t>(pages_of(sequence)));
  waiting_.push_back(&sequence);
}

void Scheduler::remove(Sequence& sequence) {
  std::erase(waiting_, &sequence);
  if (std::erase(running_, &sequence) == 0) return;
  pool_.release(sequence.pages);
  sequence.pages.clear();
  if (sequence.sequence_slot >= 0) pool_.release_sequence_slot(sequence.sequence_slot);
  sequence.sequence_slot = -1;
}

void Scheduler::admit() {
  while (!waiting_.empty() && running() < options_.max_running) {
    Sequence& sequence = *waiting_.front();
    if (pool_.has_sequence_state() && pool_.free_sequence_slots() == 0) return;
    if (!pool_.allocate(pages_of(sequence), sequence.pages)) return;
    if (pool_.has_sequence_state()) sequence.sequence_slot = pool_.allocate_sequence_slot();
    waiting_.pop_front();
    running_.push_back(&sequence);
  }
}

const replay::StepBatch* Scheduler::form_decode() {
  builder_.begin();
  step_sequences_.clear();
  for (Sequence* sequence : running_) {
    if (sequence->prompt_done()) add_to_step(*sequence, 1);
  }
  return step_sequences_.empty() ? nullptr : &builder_.finish();
}

const replay::StepBatch* Scheduler::form_prefill() {
  builder_.begin();
  step_sequences_.clear();
  int32_t budget = options_.max_prefill_tokens;
  bool all_logits = false;
  for (Sequence* sequence : running_) {
    if (budget == 0) break;
    if (sequence->prompt_done()) continue;
    if (sequence->needs_all_logits(std::min(budget, unread(*sequence)))) {
      // A step of its own: nobody else needs so many logits.
      all_logits = step_sequences_.empty();
      if (all_logits) add_to_step(*sequence, budget);
      break;
    }
    if (const int32_t size = replay::largest_size_within(options_.replayed_sizes, unread(*sequence)); size > 0) {
      if (step_sequences_.empty()) add_to_step(*sequence, size);
      break;
    }
    const int32_t count = std::min(budget, unread(*sequence));
    add_to_step(*sequence, count);
    budget -= count;
  }
  if (step_sequences_.empty()) return nullptr;
  replay::StepBatch& batch = builder_.finish();
  batch.all_logits = all_logits;
  return &batch;
}

void Scheduler::add_to_step(Sequence& sequence, int32_t limit) {
  builder_.add(sequence.next_tokens(limit), sequence.computed(), sequence.pages, sequence.sequence_slot);
  step_sequences_.push_back(&sequence);
}

}  // namespace reprise::engine
