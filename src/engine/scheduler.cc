#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "replay/buckets.h"

namespace reprise::engine {

namespace {

// How much of what they may still produce sequences are expected to produce before others end: requests seldom use what
// they allow. After a preemption it is all, and comes down again over so many decode steps.
constexpr double kLeastGrowthShare = 0.3;
constexpr double kGrowthShareDecay = (1 - kLeastGrowthShare) / 1000;
// Requests without a limit of their own allow as much as the context holds.
constexpr int32_t kMostExpectedTokens = 2048;
// A step that gives logits of every token takes memory for them all.
constexpr int32_t kMostScoredTokens = 128;

}  // namespace

Scheduler::Scheduler(KvPool& pool, const SchedulerOptions& options)
    : pool_(pool),
      options_(options),
      growth_share_(kLeastGrowthShare),
      builder_(pool),
      ahead_{StepBuilder(pool), {}, {}} {
  const auto require = [](bool allowed, const char* field, int32_t value) {
    if (!allowed) throw Error(ErrorCode::kInvalidArgument, "{} is {}, but must be at least 1", field, value);
  };
  require(options.max_running >= 1, "max_running", options.max_running);
  require(options.max_prefill_tokens >= 1, "max_prefill_tokens", options.max_prefill_tokens);
  require(options.max_context >= 1, "max_context", options.max_context);
  REPRISE_CHECK(options.replayed_sizes.empty() || options.replayed_sizes.back() <= options.max_prefill_tokens);
  running_.reserve(static_cast<size_t>(options.max_running));
  step_sequences_.reserve(static_cast<size_t>(options.max_running));
  readers_.reserve(static_cast<size_t>(options.max_running));
  by_length_.reserve(static_cast<size_t>(options.max_running));
  ahead_.sequences.reserve(static_cast<size_t>(options.max_running));
  ahead_.ids.reserve(static_cast<size_t>(options.max_running));
  for (StepBuilder* builder : {&builder_, &ahead_.builder}) {  // which take turns
    builder->reserve(std::max(options.max_running, options.max_prefill_tokens), options.max_running,
                     std::min(pool.usable_pages(), pool.pages_for(options.max_context)));
  }
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

bool Scheduler::is_more_urgent(const Sequence* a, const Sequence* b) {
  if (a->request().priority != b->request().priority) return a->request().priority > b->request().priority;
  return a->id() < b->id();
}

void Scheduler::add(Sequence& sequence) {
  // Reserved here, so that pages which come in the middle of decoding allocate nothing.
  sequence.pages.reserve(static_cast<size_t>(pool_.pages_for(sequence.size().kv_tokens())));
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), &sequence, is_more_urgent), &sequence);
}

void Scheduler::remove(Sequence& sequence) {
  if (std::erase(running_, &sequence) == 0) {
    std::erase(waiting_, &sequence);
    return;
  }
  give_up_memory(sequence);
}

void Scheduler::give_up_memory(Sequence& sequence) {
  pool_.release(sequence.pages);
  sequence.pages.clear();
  sequence.cached_pages = 0;
  sequence.cache_node = PrefixCache::kRoot;
  if (sequence.sequence_slot >= 0) pool_.release_sequence_slot(sequence.sequence_slot);
  sequence.sequence_slot = -1;
}

void Scheduler::admit() {
  while (!waiting_.empty() && running() < options_.max_running) {
    Sequence& sequence = *waiting_.front();
    if (!try_admit(sequence)) return;
    waiting_.pop_front();
    running_.insert(std::upper_bound(running_.begin(), running_.end(), &sequence, is_more_urgent), &sequence);
    sequence.begin();
  }
}

bool Scheduler::try_admit(Sequence& sequence) {
  if (pool_.has_sequence_state() && pool_.free_sequence_slots() == 0) return false;
  int32_t growth = 0;
  if (!running_.empty()) {
    growth = expected_growth(sequence);
    for (const Sequence* other : running_) growth += expected_growth(*other);
  }
  if (growth > pool_.free_pages()) return false;
  // Pages that are found without another holder are free ones until then.
  find_cached_pages(sequence);
  const int32_t needed = pool_.pages_for(sequence.length()) - static_cast<int32_t>(sequence.pages.size());
  if (needed + growth > pool_.free_pages() || !pool_.allocate(needed, sequence.pages)) {
    give_up_memory(sequence);
    return false;
  }
  if (sequence.cached_pages > 0) skip(sequence, sequence.cached_pages * pool_.page_size());
  if (pool_.has_sequence_state()) sequence.sequence_slot = pool_.allocate_sequence_slot();
  return true;
}

/// Pages that the sequence will need beyond those for what it has to read or holds.
int32_t Scheduler::expected_growth(const Sequence& sequence) const {
  const int32_t left = sequence.sampling().max_new_tokens - sequence.output_length();
  const auto expected = static_cast<int32_t>(growth_share_ * std::min(left, kMostExpectedTokens));
  const int64_t end = std::min(int64_t{sequence.length()} + expected, sequence.size().kv_tokens());
  const int32_t now = std::max(static_cast<int32_t>(sequence.pages.size()), pool_.pages_for(sequence.length()));
  return std::max(pool_.pages_for(end) - now, 0);
}

/// The tokens of the next page that the prefix cache may hold: a whole page in front of the last token to be read, and
/// of the first one whose logits are wanted. Empty when there is none.
std::span<const int32_t> Scheduler::next_cachable_page(const Sequence& sequence) const {
  if (!pool_.has_prefix_cache()) return {};
  const int32_t begin = sequence.cached_pages * pool_.page_size();
  const int32_t end = begin + pool_.page_size();
  int32_t most = sequence.length() - 1;
  if (sequence.next_scored() < sequence.prompt_length()) most = std::min(most, sequence.next_scored() - 1);
  if (end > most) return {};
  return sequence.tokens().subspan(static_cast<size_t>(begin), static_cast<size_t>(pool_.page_size()));
}

/// Holds what the prefix cache has of the sequence, which has no pages yet.
void Scheduler::find_cached_pages(Sequence& sequence) {
  for (;;) {
    const std::span<const int32_t> tokens = next_cachable_page(sequence);
    if (tokens.empty()) return;
    const auto found = pool_.find_cached(sequence.cache_node, sequence.request().cache_salt, tokens);
    if (!found) return;
    sequence.pages.push_back(found->page);
    sequence.cache_node = found->id;
    ++sequence.cached_pages;
  }
}

void Scheduler::keep_full_pages(Sequence& sequence) {
  if (!pool_.has_prefix_cache()) return;
  const int32_t size = pool_.page_size();
  while ((sequence.cached_pages + 1) * size <= sequence.computed()) {
    const auto index = static_cast<size_t>(sequence.cached_pages);
    const auto count = static_cast<size_t>(size);
    int32_t& page = sequence.pages[index];
    const std::span<const int32_t> tokens = sequence.tokens().subspan(index * count, count);
    const PrefixCache::Node kept = pool_.add_cached(page, sequence.cache_node, sequence.request().cache_salt, tokens);
    if (kept.page != page) ahead_.holds = false;
    page = kept.page;
    sequence.cache_node = kept.id;
    ++sequence.cached_pages;
  }
}

void Scheduler::prepare_decode() {
  ahead_.builder.begin();
  ahead_.sequences.clear();
  ahead_.ids.clear();
  for (Sequence* sequence : running_) {
    const bool ends = sequence->finished() || sequence->output_length() + 1 >= sequence->sampling().max_new_tokens;
    if (!sequence->in_flight || ends) continue;
    ahead_.builder.add_unknown(sequence->computed() + 1, sequence->pages, sequence->sequence_slot);
    ahead_.sequences.push_back(sequence);
    ahead_.ids.push_back(sequence->id());
  }
  ahead_.made = !ahead_.sequences.empty();
  ahead_.holds = true;
  if (ahead_.made) ahead_.builder.finish();
}

/// What was formed ahead is what would be formed now, but for what is to be filled in.
bool Scheduler::is_prepared() const {
  if (!ahead_.holds) return false;
  size_t row = 0;
  for (const Sequence* sequence : running_) {
    if (!sequence->prompt_done()) continue;
    if (row == ahead_.sequences.size() || ahead_.sequences[row] != sequence || ahead_.ids[row] != sequence->id() ||
        ahead_.builder.batch().positions[row] != sequence->computed()) {
      return false;
    }
    ++row;
  }
  return row == ahead_.sequences.size();
}

/// Makes the batch that was formed ahead that of the step, if it still is.
bool Scheduler::take_prepared() {
  if (!std::exchange(ahead_.made, false)) return false;
  if (!is_prepared()) {
    ++dropped_preparations_;
    return false;
  }
  ++prepared_steps_;
  std::swap(builder_, ahead_.builder);
  step_sequences_.swap(ahead_.sequences);
  for (size_t row = 0; row < step_sequences_.size(); ++row) {
    const Sequence& sequence = *step_sequences_[row];
    builder_.fill(static_cast<int32_t>(row), sequence.next_tokens(1)[0], sequence.pages);
  }
  return true;
}

const replay::StepBatch* Scheduler::form_decode() {
  growth_share_ = std::max(growth_share_ - kGrowthShareDecay, kLeastGrowthShare);
  // The least urgent are at the end, so none that has got its page is preempted afterwards.
  for (size_t i = 0; i < running_.size(); ++i) {
    if (running_[i]->prompt_done() && !provide_next_page(*running_[i])) break;
  }
  if (take_prepared()) return &builder_.batch();
  builder_.begin();
  step_sequences_.clear();
  for (Sequence* sequence : running_) {
    if (sequence->prompt_done()) add_to_step(*sequence, 1);
  }
  return step_sequences_.empty() ? nullptr : &builder_.finish();
}

/// Sees to a page for the next token. False when the sequence itself had to go for others.
bool Scheduler::provide_next_page(Sequence& sequence) {
  if (pool_.pages_for(int64_t{sequence.computed()} + 1) <= static_cast<int32_t>(sequence.pages.size())) return true;
  while (!pool_.allocate(1, sequence.pages)) {
    Sequence& victim = *running_.back();
    preempt(victim);
    if (&victim == &sequence) return false;
  }
  return true;
}

void Scheduler::preempt(Sequence& sequence) {
  std::erase(running_, &sequence);
  give_up_memory(sequence);
  sequence.restart();
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), &sequence, is_more_urgent), &sequence);
  growth_share_ = 1;
  ++preemptions_;
}

const replay::StepBatch* Scheduler::form_prefill() {
  builder_.begin();
  step_sequences_.clear();
  find_readers();
  if (readers_.empty()) return nullptr;
  Sequence& first = *readers_.front().sequence;
  const int32_t all = std::min(first.unread(), options_.max_prefill_tokens);
  const bool all_logits = first.needs_all_logits(all);
  find_joining();
  const int32_t size = replayed_size(first);
  if (all_logits) {
    add_to_step(first, std::min(all, kMostScoredTokens));
  } else if (size > 0 && (by_length_.empty() || !others_turn_)) {
    add_to_step(first, size);
    others_turn_ = true;
  } else {
    share_budget(size == 0);
    others_turn_ = false;
    for (const Share& share : readers_) {
      if (share.tokens > 0) add_to_step(*share.sequence, share.tokens);
    }
  }
  replay::StepBatch& batch = builder_.finish();
  batch.all_logits = all_logits;
  batch.reads_prompts = true;
  return &batch;
}

/// Those that have something to read and need not wait for what another one reads.
void Scheduler::find_readers() {
  readers_.clear();
  for (Sequence* sequence : running_) {
    if (sequence->prompt_done()) continue;
    find_computed_pages(*sequence);
    const bool waits = std::any_of(readers_.begin(), readers_.end(),
                                   [&](const Share& reader) { return waits_for(*sequence, *reader.sequence); });
    if (!waits) readers_.push_back({sequence, 0});
  }
}

/// Takes pages that others have filled since the sequence was admitted, for its own empty ones.
void Scheduler::find_computed_pages(Sequence& sequence) {
  const int32_t size = pool_.page_size();
  while (sequence.cached_pages * size == sequence.computed()) {
    const std::span<const int32_t> tokens = next_cachable_page(sequence);
    if (tokens.empty()) return;
    const auto found = pool_.find_cached(sequence.cache_node, sequence.request().cache_salt, tokens);
    if (!found) return;
    int32_t& page = sequence.pages[static_cast<size_t>(sequence.cached_pages)];
    pool_.release({&page, 1});
    page = found->page;
    sequence.cache_node = found->id;
    ++sequence.cached_pages;
    skip(sequence, size);
  }
}

void Scheduler::skip(Sequence& sequence, int32_t tokens) {
  if (sequence.output().preemptions == 0) cached_tokens_ += tokens;
  sequence.skip(tokens);
}

/// The reader is filling just the page that the sequence needs next.
bool Scheduler::waits_for(const Sequence& sequence, const Sequence& reader) const {
  if (sequence.cached_pages * pool_.page_size() != sequence.computed()) return false;
  if (sequence.cache_node != reader.cache_node || sequence.cached_pages != reader.cached_pages) return false;
  if (sequence.request().cache_salt != reader.request().cache_salt) return false;
  const std::span<const int32_t> wanted = next_cachable_page(sequence);
  const size_t begin = static_cast<size_t>(reader.cached_pages) * static_cast<size_t>(pool_.page_size());
  if (wanted.empty() || reader.tokens().size() < begin + wanted.size()) return false;
  const std::span<const int32_t> filled = reader.tokens().subspan(begin, wanted.size());
  return std::equal(wanted.begin(), wanted.end(), filled.begin());
}

int32_t Scheduler::replayed_size(const Sequence& sequence) const {
  return replay::largest_size_within(options_.replayed_sizes, sequence.unread());
}

/// Those that can read in one step with others, but for the most urgent one, the shortest first.
void Scheduler::find_joining() {
  by_length_.clear();
  for (Share& share : readers_) {
    const int32_t unread = share.sequence->unread();
    if (&share == &readers_.front()) continue;
    if (replayed_size(*share.sequence) > 0 || share.sequence->needs_all_logits(unread)) continue;  // on their own
    by_length_.push_back(&share);
  }
  std::sort(by_length_.begin(), by_length_.end(), [](const Share* a, const Share* b) {
    const int32_t left = a->sequence->unread(), right = b->sequence->unread();
    return left != right ? left < right : a < b;
  });
}

/// Deals the tokens of a step among them, and the most urgent one if it joins.
void Scheduler::share_budget(bool first_joins) {
  int32_t budget = options_.max_prefill_tokens;
  if (first_joins) {
    int64_t others = 0;
    for (const Share* share : by_length_) others += share->sequence->unread();
    const auto left_for_others = static_cast<int32_t>(std::min<int64_t>(others, budget / 2));
    Share& first = readers_.front();
    first.tokens = std::min(first.sequence->unread(), budget - left_for_others);
    budget -= first.tokens;
  }
  for (Share* share : by_length_) {
    share->tokens = std::min(share->sequence->unread(), budget);
    budget -= share->tokens;
  }
}

void Scheduler::add_to_step(Sequence& sequence, int32_t limit) {
  builder_.add(sequence.next_tokens(limit), sequence.computed(), sequence.pages, sequence.sequence_slot);
  step_sequences_.push_back(&sequence);
}

}  // namespace reprise::engine
