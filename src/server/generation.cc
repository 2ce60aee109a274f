#include "server/generation.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace reprise::server {

void Generation::start(const GenerationHost& host, const std::shared_ptr<Exchange>& exchange,
                       std::vector<engine::Request> requests, std::vector<std::vector<std::string>> names,
                       std::unique_ptr<AnswerWriter> writer, Clock::time_point arrival) {
  const std::shared_ptr<Generation> self(new Generation(host, exchange, std::move(writer), arrival));
  self->choices_.resize(requests.size());
  self->open_ = requests.size();
  for (size_t i = 0; i < requests.size(); ++i) {
    self->choices_[i].names = std::move(names[i]);
    requests[i].on_token = [self, i](const engine::TokenEvent& event) { self->on_engine_event(i, event); };
  }
  {
    // Events that come before the ids are known wait in on_event() and answer().
    const std::lock_guard lock(self->mutex_);
    const std::vector<engine::RequestId> ids = host.service.submit(std::move(requests));
    for (size_t i = 0; i < ids.size(); ++i) {
      self->choices_[i].id = ids[i];
      host.live->add(self->choices_[i].names, ids[i]);
    }
    host.metrics->requests += static_cast<int64_t>(ids.size());
    self->writer_->begin();
  }
  exchange->on_gone([weak = self->weak_from_this()] {
    if (const auto generation = weak.lock()) generation->cancel();
  });
}

void Generation::on_engine_event(size_t choice, const engine::TokenEvent& event) {
  measure(choices_[choice], event);
  if (event.output == nullptr && (!writer_->wants_tokens() || exchange_->gone())) return;
  ChoiceEvent copy;
  copy.choice = choice;
  copy.token = event.token;
  copy.text = event.text;
  copy.cached_tokens = event.cached_tokens;
  if (event.logprobs != nullptr) copy.logprobs = *event.logprobs;
  copy.prompt_logprobs.assign(event.prompt_logprobs.begin(), event.prompt_logprobs.end());
  if (event.output != nullptr) copy.output = std::make_unique<engine::RequestOutput>(*event.output);
  add(std::move(copy));
}

/// Behind the first token of a choice nobody sees a few milliseconds.
void Generation::add(ChoiceEvent event) {
  const bool urgent = event.output != nullptr || !std::exchange(choices_[event.choice].has_begun, true);
  {
    const std::lock_guard lock(events_mutex_);
    if (event.output && ++outputs_seen_ == choices_.size()) last_seen_ = true;
    events_.push_back(std::move(event));
    if (std::exchange(urgent ? urgent_announced_ : announced_, true)) return;
  }
  host_.relay->push(shared_from_this(), urgent);
}

void Generation::on_events() {
  {
    const std::lock_guard lock(events_mutex_);
    announced_ = urgent_announced_ = false;
  }
  wake(/*has_room=*/false);
}

void Generation::measure(Choice& choice, const engine::TokenEvent& event) {
  ServerMetrics& metrics = *host_.metrics;
  const Clock::time_point now = Clock::now();
  const auto seconds_since = [now](Clock::time_point begin) {
    return std::chrono::duration<double>(now - begin).count();
  };
  if (event.token) {
    if (choice.last_token == Clock::time_point()) {
      metrics.time_to_first_token.observe(seconds_since(arrival_));
    } else {
      metrics.inter_token_latency.observe(seconds_since(choice.last_token));
    }
    choice.last_token = now;
    ++metrics.generated_tokens;
  }
  if (event.output == nullptr) return;
  metrics.prompt_tokens += event.output->prompt_tokens;
  metrics.cached_tokens += event.output->cached_tokens;
  if (event.output->finish == engine::FinishReason::kCancelled) ++metrics.aborted;
  if (event.output->finish == engine::FinishReason::kError) ++metrics.failed;
  metrics.request_latency.observe(seconds_since(arrival_));
}

void Generation::wake(bool has_room) {
  {
    const std::lock_guard lock(events_mutex_);
    const bool startable =
        progress_ == Progress::kIdle || (progress_ == Progress::kBlocked && (has_room || last_seen_));
    if (!startable) return;
    progress_ = Progress::kScheduled;
    ++turn_;
  }
  // Room is told of on a connection's thread, which has others to serve.
  if (writer_->is_heavy() || has_room) {
    run_soon();
  } else {
    run();
  }
}

void Generation::run_soon() {
  host_.relay->work([self = shared_from_this()] { self->run(); });
}

void Generation::run() {
  constexpr std::chrono::milliseconds kTurn{2};
  {
    const std::lock_guard lock(mutex_);
  }  // until start() is done
  {
    const std::lock_guard lock(events_mutex_);
    progress_ = Progress::kRunning;
  }
  const Clock::time_point begin = Clock::now();
  while (has_room()) {
    std::vector<ChoiceEvent> events = next_events();
    for (ChoiceEvent& event : events) answer(event);
    if (events.empty() || !writer_->gathers()) flush();
    if (events.empty() && finish_run()) return;
    if (Clock::now() - begin < kTurn) continue;
    {
      const std::lock_guard lock(events_mutex_);
      progress_ = Progress::kScheduled;
    }
    run_soon();  // after others
    return;
  }
}

bool Generation::has_room() {
  bool empty = writer_->gathers();
  int64_t turn = 0;
  {
    const std::lock_guard lock(events_mutex_);
    if (last_seen_) empty = false;
    progress_ = Progress::kBlocked;
    turn = turn_;
  }
  if (!exchange_->when_room(empty, [self = shared_from_this()] { self->wake(/*has_room=*/true); })) return false;
  const std::lock_guard lock(events_mutex_);
  if (turn_ != turn) return false;  // meanwhile another run was scheduled
  progress_ = Progress::kRunning;
  return true;
}

std::vector<ChoiceEvent> Generation::next_events() {
  // As many as come together; what they give may exceed a connection's room by that much.
  constexpr size_t kMost = 16;
  std::vector<ChoiceEvent> events;
  const std::lock_guard lock(events_mutex_);
  events.reserve(std::min(events_.size(), kMost));
  while (!events_.empty() && events.size() < kMost) {
    events.push_back(std::move(events_.front()));
    events_.pop_front();
  }
  return events;
}

bool Generation::finish_run() {
  const std::lock_guard lock(events_mutex_);
  if (!events_.empty()) return false;
  progress_ = Progress::kIdle;
  return true;
}

void Generation::answer(ChoiceEvent& event) {
  if (event.output) end_choice(choices_[event.choice]);
  if (failed_ || exchange_->gone()) return;
  if (event.output && event.output->finish == engine::FinishReason::kError) {
    fail(event.output->error.value_or(Error(ErrorCode::kInternal, "The request failed.")));
    return;
  }
  write([&] {
    writer_->on_event(event);
    unsaid_ = true;
    if (open_ > 0) return;
    flush();
    if (!failed_) writer_->on_complete();
  });
}

void Generation::flush() {
  if (!std::exchange(unsaid_, false) || failed_ || exchange_->gone()) return;
  write([&] { writer_->flush(); });
}

void Generation::write(const std::function<void()>& part) {
  try {
    part();
  } catch (const std::exception& error) {
    log_error("an answer could not be written: {}", error.what());
    fail(Error(ErrorCode::kInternal, "The answer could not be written."));
  }
}

void Generation::fail(const Error& error) {
  failed_ = true;
  cancel();
  try {
    writer_->on_failure(error);
  } catch (const std::exception& failure) {  // there may be no memory for that either
    log_error("a failure could not be told: {}", failure.what());
  }
}

void Generation::end_choice(Choice& choice) {
  --open_;
  host_.live->remove(choice.names, choice.id);
}

void Generation::cancel() {
  for (const Choice& choice : choices_) host_.service.cancel(choice.id);
}

}  // namespace reprise::server
