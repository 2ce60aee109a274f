#include "device/cpu/event_state.h"

#include <algorithm>
#include <chrono>

namespace reprise::device::cpu {

bool EventState::is_reached(uint64_t ticket) const {
  if (reached_through_.load(std::memory_order_acquire) >= ticket) return true;
  const std::lock_guard lock(early_mutex_);
  // Again: between the two looks the ticket may have left the list.
  return reached_through_.load(std::memory_order_acquire) >= ticket ||
         std::find(early_.begin(), early_.end(), ticket) != early_.end();
}

void EventState::reach(uint64_t ticket) {
  if (ticket > newest_) {
    newest_ = ticket;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    time_ns_.store(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(), std::memory_order_relaxed);
  }
  uint64_t through = reached_through_.load(std::memory_order_relaxed);
  if (ticket == through + 1 && early_.empty()) {  // the rule: nobody else changes the list
    reached_through_.store(ticket, std::memory_order_release);
    return;
  }
  const std::lock_guard lock(early_mutex_);
  early_.push_back(ticket);
  for (auto next = std::find(early_.begin(), early_.end(), through + 1); next != early_.end();
       next = std::find(early_.begin(), early_.end(), through + 1)) {
    *next = early_.back();
    early_.pop_back();
    ++through;
  }
  reached_through_.store(through, std::memory_order_release);
}

}  // namespace reprise::device::cpu
