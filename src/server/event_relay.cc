#include "server/event_relay.h"

#include <utility>

namespace reprise::server {

void EventRelay::push(std::shared_ptr<EventSink> sink, bool urgent) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  (urgent || gather_time_.count() == 0 ? urgent_ : gathered_).push_back(std::move(sink));
}

void EventRelay::end_turn() {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  if (!urgent_.empty() && !std::exchange(urgent_posted_, true)) {
    executor_.post([self = shared_from_this()] { self->deliver(&EventRelay::urgent_); });
  }
  if (gathered_.empty() || gathered_posted_) return;
  const Clock::time_point now = Clock::now();
  if (now < gather_until_) return;
  gathered_posted_ = true;
  gather_until_ = now + gather_time_;
  executor_.post([self = shared_from_this()] { self->deliver(&EventRelay::gathered_); });
}

void EventRelay::work(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (!closed_) executor_.work(std::move(task));
}

void EventRelay::close() {
  Sinks dropped[2];
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped[0].swap(urgent_);
  dropped[1].swap(gathered_);
}

void EventRelay::deliver(Sinks EventRelay::* list) {
  Sinks sinks;
  {
    const std::lock_guard lock(mutex_);
    (list == &EventRelay::urgent_ ? urgent_posted_ : gathered_posted_) = false;
    sinks.swap(this->*list);
    if (list == &EventRelay::gathered_ && !closed_ && !std::exchange(watched_, true)) watch();
  }
  for (const std::shared_ptr<EventSink>& sink : sinks) sink->on_events();
}

/// A turn may be the last one for long.
void EventRelay::watch() {
  executor_.post_after(2 * gather_time_, [self = shared_from_this()] { self->look(); });
}

void EventRelay::look() {
  {
    const std::lock_guard lock(mutex_);
    watched_ = !closed_ && !gathered_.empty();
    if (!watched_) return;
    watch();
    if (Clock::now() < gather_until_) return;  // a turn has just ended, and there are more to come
  }
  deliver(&EventRelay::gathered_);
}

}  // namespace reprise::server
