#include "server/event_relay.h"

#include <utility>

namespace reprise::server {

void EventRelay::push(std::shared_ptr<ChoiceEventSink> sink, ChoiceEvent event) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  const bool first = items_.empty();
  items_.push_back({std::move(sink), std::move(event)});
  if (first) post_([self = shared_from_this()] { self->deliver(); });
}

void EventRelay::work(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (!closed_) work_(std::move(task));
}

void EventRelay::close() {
  std::vector<Item> dropped;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(items_);
}

void EventRelay::deliver() {
  std::vector<Item> items;
  {
    const std::lock_guard lock(mutex_);
    items.swap(items_);
  }
  // An engine that is faster than this brings several events of a request at once.
  for (Item& item : items) item.sink->on_event(std::move(item.event));
  const ChoiceEventSink* last = nullptr;
  for (const Item& item : items) {
    if (item.sink.get() != std::exchange(last, item.sink.get())) item.sink->on_events_end();
  }
}

}  // namespace reprise::server
