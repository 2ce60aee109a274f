#include "engine/step_loop.h"

#include <algorithm>
#include <new>
#include <set>

#include "base/log.h"
#include "base/random.h"
#include "device/device_lost.h"

namespace reprise::engine {
namespace {

// For logs: "7" or, when the client has a name for it, "7 (chatcmpl-x)".
std::string name_of(const Sequence& sequence) {
  const std::string& label = sequence.request().label;
  return label.empty() ? fmt::format("{}", sequence.id()) : fmt::format("{} ({})", sequence.id(), label);
}

}  // namespace

StepLoop::StepLoop(KvPool& pool, StepFunction step_function, std::optional<text::Tokenizer> tokenizer,
                   StepLoopOptions options)
    : step_function_(std::move(step_function)),
      tokenizer_(std::move(tokenizer)),
      options_(std::move(options)),
      scheduler_(pool, options_.scheduler),
      sampler_(options_.vocabulary, std::max(options_.sampling_threads, 1)) {
  for (const int32_t token : options_.end_token_ids) {
    if (token < 0 || token >= options_.vocabulary) {
      throw Error(ErrorCode::kInvalidArgument, "the model's end token is {}, but its vocabulary has {} tokens", token,
                  options_.vocabulary);
    }
  }
  step_events_.reserve(static_cast<size_t>(options_.scheduler.max_running));
  rows_.reserve(static_cast<size_t>(options_.scheduler.max_running));
}

void StepLoop::check(const Request& request) const {
  request.sampling.validate(options_.vocabulary);
  check_prompt(request);
  if (!request.sampling.stop.empty() && !tokenizer_) {
    throw Error(ErrorCode::kInvalidArgument, "stop strings need the model's tokenizer, which was not loaded")
        .remedy("use stop_token_ids");
  }
  check_ends(request.sampling);
  const RequestSize size = {static_cast<int32_t>(request.prompt.size()), request.sampling.max_new_tokens,
                            request.prompt_logprobs.has_value()};
  scheduler_.check_fits(size);
}

void StepLoop::check_prompt(const Request& request) const {
  const std::vector<int32_t>& prompt = request.prompt;
  if (prompt.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the prompt has no tokens, but must have at least one");
  }
  constexpr size_t kMost = 1u << 30;
  if (prompt.size() > kMost) throw Error(ErrorCode::kInvalidArgument, "the prompt is too long");
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= options_.vocabulary) {
      throw Error(ErrorCode::kInvalidArgument, "token {} of the prompt is {}, but must be between 0 and {}", i,
                  prompt[i], options_.vocabulary - 1);
    }
  }
  const std::optional<int32_t> logprobs = request.prompt_logprobs;
  if (logprobs && (*logprobs < 0 || *logprobs > SamplingParameters::kMaxLogprobs)) {
    throw Error(ErrorCode::kInvalidArgument, "prompt_logprobs is {}, but must be between 0 and {}", *logprobs,
                SamplingParameters::kMaxLogprobs);
  }
  const int32_t start = request.prompt_logprobs_start;
  if (start < 0 || start > static_cast<int32_t>(prompt.size())) {
    throw Error(ErrorCode::kInvalidArgument, "prompt_logprobs_start is {}, but must be between 0 and the prompt's {}",
                start, prompt.size());
  }
}

/// While the output must not end, there must be tokens that do not end it.
void StepLoop::check_ends(const SamplingParameters& sampling) const {
  if (sampling.min_new_tokens == 0) return;
  std::set<int32_t> ends(sampling.stop_token_ids.begin(), sampling.stop_token_ids.end());
  if (!sampling.ignore_eos) ends.insert(options_.end_token_ids.begin(), options_.end_token_ids.end());
  if (static_cast<int32_t>(ends.size()) < options_.vocabulary) return;
  throw Error(ErrorCode::kInvalidArgument, "min_new_tokens is {}, but every token ends the output",
              sampling.min_new_tokens);
}

RequestId StepLoop::submit(Request request) {
  check(request);
  const RequestId id = new_request_id();
  submit(id, std::move(request));
  return id;
}

void StepLoop::submit(RequestId id, Request request) {
  const uint64_t seed = request.sampling.seed.value_or(random_bits(options_.seed, static_cast<uint64_t>(id)));
  auto sequence =
      std::make_unique<Sequence>(id, std::move(request), seed, options_.vocabulary, tokenizer_, options_.end_token_ids);
  if (sequence->size().kv_tokens() == 0) {
    sequence->finish(FinishReason::kLength);
    ended_.push_back(id);
  } else {
    scheduler_.add(*sequence);
  }
  sequences_.emplace(id, std::move(sequence));
}

bool StepLoop::cancel(RequestId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end() || found->second->finished()) return false;
  if (id == delivering_) {  // its event is in use
    cancel_delivering_ = true;
    return true;
  }
  found->second->finish(FinishReason::kCancelled);
  if (!found->second->in_flight) scheduler_.remove(*found->second);
  ended_.push_back(id);
  return true;
}

void StepLoop::cancel_all() {
  for (const auto& entry : sequences_) cancel(entry.first);
}

void StepLoop::fail_all(const Error& error) {
  delivering_ = 0;
  step_events_.clear();
  if (flight_) {
    try {
      await();
    } catch (const std::exception& failure) {
      log_debug("ending a step of an engine that failed: {}", failure.what());
    }
  }
  for (const auto& [id, sequence] : sequences_) {
    sequence->fail(error);
    ended_.push_back(id);
  }
  deliver_ended();
}

bool StepLoop::step() {
  if (in_step_) throw Error(ErrorCode::kFailedPrecondition, "step() was called from a token callback");
  struct Guard {
    bool& flag;
    explicit Guard(bool& target) : flag(target) { flag = true; }
    ~Guard() { flag = false; }
  } guard(in_step_);

  const bool worked = options_.asynchronous ? step_ahead() : step_in_turn();
  if (!worked) last_end_.reset();
  return worked;
}

bool StepLoop::step_in_turn() {
  bool worked = !ended_.empty();
  deliver_ended();
  scheduler_.admit();
  worked |= run_decode();
  scheduler_.admit();  // what ended has left room
  worked |= run_prefill();
  deliver_ended();
  return worked;
}

/// The same steps in the same order, but the turn ends in the middle of the decode step: callbacks, and whatever is
/// done between two turns, find the device at work. Only what a step has given decides what comes next, so nothing is
/// scheduled while one runs; but the batch is formed that comes next if nothing changes. As late as possible, when it
/// is known who has left meanwhile.
bool StepLoop::step_ahead() {
  bool worked = flight_ || !ended_.empty() || !step_events_.empty();
  if (flight_ && options_.prepare_steps) scheduler_.prepare_decode();
  finish_decode();
  scheduler_.admit();
  Instant begin = now();
  if (issue(scheduler_.form_prefill(), begin)) {
    deliver_step();
    finish_prefill();
    worked = true;
  }
  scheduler_.admit();
  begin = now();
  worked |= issue(scheduler_.form_decode(), begin);
  deliver_step();
  deliver_ended();
  return worked;
}

void StepLoop::settle() {
  if (!flight_) return;
  if (in_step_) throw Error(ErrorCode::kFailedPrecondition, "a step is running, and cannot be awaited in a callback");
  finish_decode();
}

/// False when there is no batch. Failures come out of await().
bool StepLoop::issue(const replay::StepBatch* batch, const Instant& begin) {
  if (batch == nullptr) return false;
  flight_ = Flight{batch, begin};
  for (Sequence* sequence : scheduler_.step_sequences()) sequence->in_flight = true;
  try {
    options_.asynchronous->issue(*batch);
  } catch (...) {
    flight_->failure = std::current_exception();
  }
  return true;
}

/// The sequences of the step may go, whatever comes of it.
replay::LogitsView StepLoop::await() {
  const std::exception_ptr failure = std::exchange(flight_, std::nullopt)->failure;
  for (Sequence* sequence : scheduler_.step_sequences()) sequence->in_flight = false;
  if (failure) std::rethrow_exception(failure);
  return options_.asynchronous->await();
}

void StepLoop::finish_decode() {
  if (!flight_) return;
  const Flight flight = *flight_;
  run_step(*flight.batch, statistics_.decode_tokens, [this] { return await(); });
  count_decode(flight.begin);
}

void StepLoop::finish_prefill() {
  const Flight flight = *flight_;
  int64_t first_tokens = 0;
  run_step(*flight.batch, first_tokens, [this] { return await(); });
  count_prefill(flight.begin, *flight.batch);
}

StepLoop::Instant StepLoop::now() const {
  return {std::chrono::steady_clock::now(), options_.capture_seconds ? options_.capture_seconds() : 0};
}

/// Without captures.
double StepLoop::seconds_between(const Instant& begin, const Instant& end) {
  return std::chrono::duration<double>(end.time - begin.time).count() - (end.capture_seconds - begin.capture_seconds);
}

bool StepLoop::run_decode() {
  const Instant begin = now();
  const replay::StepBatch* batch = scheduler_.form_decode();
  if (batch == nullptr) return false;
  run_step(*batch, statistics_.decode_tokens, [&] { return step_function_(*batch); });
  count_decode(begin);
  deliver_step();
  return true;
}

void StepLoop::count_decode(const Instant& begin) {
  ++statistics_.decode_steps;
  const Instant end = now();
  statistics_.decode_seconds += seconds_between(begin, end);
  statistics_.decode_wall_seconds += seconds_between(last_end_.value_or(begin), end);
  last_end_ = end;
}

bool StepLoop::run_prefill() {
  const Instant begin = now();
  const replay::StepBatch* batch = scheduler_.form_prefill();
  if (batch == nullptr) return false;
  int64_t first_tokens = 0;
  run_step(*batch, first_tokens, [&] { return step_function_(*batch); });
  count_prefill(begin, *batch);
  deliver_step();
  return true;
}

void StepLoop::count_prefill(const Instant& begin, const replay::StepBatch& batch) {
  statistics_.prefill_tokens += batch.tokens();
  ++statistics_.prefill_steps;
  last_end_ = now();
  statistics_.prefill_seconds += seconds_between(begin, *last_end_);
}

Statistics StepLoop::statistics() const {
  Statistics result = statistics_;
  result.cached_tokens = scheduler_.cached_tokens();
  result.preemptions = scheduler_.preemptions();
  result.prepared_steps = scheduler_.prepared_steps();
  result.dropped_preparations = scheduler_.dropped_preparations();
  return result;
}

void StepLoop::run_until_done() {
  while (step()) {
  }
}

void StepLoop::run_step(const replay::StepBatch& batch, int64_t& tokens,
                        const std::function<replay::LogitsView()>& run) {
  const auto fail_all = [this](const Error& error) {
    for (Sequence* sequence : scheduler_.step_sequences()) sequence->fail(error);
  };
  try {
    const replay::LogitsView logits = run();
    const int32_t rows = batch.all_logits ? batch.tokens() : batch.sequences();
    REPRISE_CHECK(logits.rows == rows && logits.vocabulary == options_.vocabulary);
    sample_rows(logits, batch, tokens);
  } catch (const device::DeviceLost&) {
    throw;  // no step after this one can do better
  } catch (const Error& error) {
    log_error("a step of {} sequences failed: {}", batch.sequences(), error.what());
    fail_all(error);
  } catch (const std::bad_alloc&) {
    fail_all(Error(ErrorCode::kOutOfMemory, "memory ran out in a step of {} sequences", batch.sequences()));
  }
  step_events_.assign(scheduler_.step_sequences().begin(), scheduler_.step_sequences().end());
  // Pages of those that ended are free before anybody is told.
  for (Sequence* sequence : step_events_) {
    if (sequence->finished()) scheduler_.remove(*sequence);
  }
}

/// Rows are drawn all at once, and their tokens taken in order.
void StepLoop::sample_rows(const replay::LogitsView& logits, const replay::StepBatch& batch, int64_t& tokens) {
  const std::span<Sequence* const> sequences = scheduler_.step_sequences();
  rows_.clear();
  int32_t row = -1;  // of the last token of the sequence
  for (size_t i = 0; i < sequences.size(); ++i) {
    Sequence& sequence = *sequences[i];
    const int32_t count = batch.query_lengths[i];
    row += batch.all_logits ? count : 1;
    if (sequence.finished()) continue;  // cancelled while the step ran
    RowSampler::Row& drawn = rows_.emplace_back();
    drawn.sequence = &sequence;
    try {
      if (batch.all_logits) score_prompt(sequence, logits, count);
      const bool all_read = sequence.advance(count);
      if (all_read && sequence.is_only_read()) {
        sequence.finish(FinishReason::kLength);
      } else if (all_read) {
        drawn.logits = logits.row(row);
      }
    } catch (const Error&) {
      drawn.failure = std::current_exception();
    }
  }
  sampler_.sample(rows_);
  size_t next = 0;
  for (Sequence* sequence : sequences) {
    if (next < rows_.size() && rows_[next].sequence == sequence) take_row(*sequence, rows_[next++], tokens);
  }
}

/// The logits of one row say nothing about the others, so an error ends this sequence alone.
void StepLoop::take_row(Sequence& sequence, RowSampler::Row& row, int64_t& tokens) {
  try {
    if (row.failure) std::rethrow_exception(row.failure);
    if (!row.logits.empty()) {
      sequence.append(row.token, std::move(row.logprobs));
      ++tokens;
      ++statistics_.generated_tokens;
    }
    scheduler_.keep_full_pages(sequence);
  } catch (const Error& error) {
    log_error("request {} failed: {}", name_of(sequence), error.what());
    sequence.fail(error);
  }
}

/// In a step of one sequence: row i tells what follows its i-th token.
void StepLoop::score_prompt(Sequence& sequence, const replay::LogitsView& logits, int32_t count) {
  const int32_t end = std::min(sequence.computed() + count, sequence.prompt_length() - 1);
  while (sequence.next_scored() <= end) {
    const int32_t position = sequence.next_scored();
    PositionLogprobs logprobs;
    sampler_.logprobs(logits.row(position - 1 - sequence.computed()),
                      sequence.request().prompt[static_cast<size_t>(position)], *sequence.request().prompt_logprobs,
                      logprobs);
    sequence.append_prompt_logprobs(std::move(logprobs));
  }
}

void StepLoop::deliver_step() {
  for (Sequence* sequence : step_events_) {
    if (sequence->finished() && sequence->in_flight) continue;  // cancelled by another's callback
    if (!sequence->has_event()) continue;
    tell(*sequence);
    if (!sequence->finished()) continue;
    if (sequence->in_flight) {
      ended_.push_back(sequence->id());
    } else {
      retire(*sequence);
    }
  }
  step_events_.clear();
}

void StepLoop::deliver_ended() {
  // By index: callbacks may end more.
  size_t kept = 0;
  for (size_t i = 0; i < ended_.size(); ++i) {
    const RequestId id = ended_[i];
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) continue;  // its last event came with a step
    if (found->second->in_flight) {
      ended_[kept++] = id;
      continue;
    }
    tell(*found->second);
    retire(*found->second);
  }
  ended_.resize(kept);
}

void StepLoop::tell(Sequence& sequence) {
  delivering_ = sequence.id();
  // Twice when the callback ends the request: the second event is the end. That comes when no step reads or writes the
  // pages any more, which are free then.
  while (sequence.has_event() && !(sequence.finished() && sequence.in_flight)) {
    cancel_delivering_ = false;
    std::optional<Error> failure;
    const TokenEvent event = sequence.take_event();
    if (event.output != nullptr) count_end(event.output->finish);
    try {
      if (sequence.request().on_token) sequence.request().on_token(event);
    } catch (const std::exception& exception) {
      log_warning("the callback of request {} failed: {}", name_of(sequence), exception.what());
      failure.emplace(ErrorCode::kCancelled, fmt::format("its callback failed: {}", exception.what()));
    }
    if (failure) sequence.fail(*failure);
    if (cancel_delivering_) sequence.finish(FinishReason::kCancelled);
  }
  delivering_ = 0;
}

/// In front of the event that tells it.
void StepLoop::count_end(FinishReason reason) {
  ++statistics_.finished_requests;
  if (reason == FinishReason::kCancelled) ++statistics_.cancelled_requests;
  if (reason == FinishReason::kError) ++statistics_.failed_requests;
}

/// Of a sequence that has ended and was told to have.
void StepLoop::retire(Sequence& sequence) {
  scheduler_.remove(sequence);
  sequences_.erase(sequence.id());
}

}  // namespace reprise::engine
