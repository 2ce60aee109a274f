#include "server/generation.h"

#include <utility>

#include "base/log.h"

namespace reprise::server {

void Generation::start(const GenerationHost& host, const std::shared_ptr<Exchange>& exchange,
                       std::vector<engine::Request> requests, std::vector<std::string> names,
                       std::unique_ptr<AnswerWriter> writer, Clock::time_point arrival) {
  const std::shared_ptr<Generation> self(new Generation(host, std::move(writer), arrival));
  self->choices_.resize(requests.size());
  self->open_ = requests.size();
  for (size_t i = 0; i < requests.size(); ++i) {
    self->choices_[i].name = names[i];
    requests[i].on_token = [self, i](const engine::TokenEvent& event) { self->on_engine_event(i, event); };
  }
  {
    // Events that come before the ids are known wait in on_event().
    const std::lock_guard lock(self->mutex_);
    const std::vector<engine::RequestId> ids = host.service.submit(std::move(requests));
    for (size_t i = 0; i < ids.size(); ++i) {
      self->choices_[i].id = ids[i];
      host.live->add(names[i], ids[i]);
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
  if (event.output == nullptr && !writer_->wants_tokens()) return;
  ChoiceEvent copy;
  copy.choice = choice;
  copy.token = event.token;
  copy.text = event.text;
  if (event.logprobs != nullptr) copy.logprobs = *event.logprobs;
  copy.prompt_logprobs.assign(event.prompt_logprobs.begin(), event.prompt_logprobs.end());
  if (event.output != nullptr) copy.output = std::make_unique<engine::RequestOutput>(*event.output);
  host_.relay->push(shared_from_this(), std::move(copy));
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

void Generation::on_event(ChoiceEvent& event) {
  {
    const std::lock_guard lock(mutex_);
  }  // until start() is done
  if (event.output) end_choice(choices_[event.choice]);
  if (failed_) return;
  if (event.output && event.output->finish == engine::FinishReason::kError) {
    failed_ = true;
    cancel();
    writer_->on_failure(event.output->error.value_or(Error(ErrorCode::kInternal, "The request failed.")));
    return;
  }
  try {
    writer_->on_event(event);
    if (open_ == 0) writer_->on_complete();
  } catch (const std::exception& error) {
    log_error("an answer could not be written: {}", error.what());
    failed_ = true;
    cancel();
    writer_->on_failure(Error(ErrorCode::kInternal, "The answer could not be written."));
  }
}

void Generation::end_choice(Choice& choice) {
  --open_;
  choice.ended = true;
  host_.live->remove(choice.name, choice.id);
}

void Generation::cancel() {
  for (const Choice& choice : choices_) host_.service.cancel(choice.id);
}

}  // namespace reprise::server
