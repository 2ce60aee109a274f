#include "emulator/runtime/validation/order.h"

#include <algorithm>

namespace reprise::emulator {

void OrderClock::join(const OrderClock& other) {
  if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
  for (size_t line = 0; line < other.times_.size(); ++line) times_[line] = std::max(times_[line], other.times_[line]);
}

void OrderClock::set(Moment moment) {
  if (times_.size() <= moment.line) times_.resize(moment.line + 1);
  times_[moment.line] = std::max(times_[moment.line], moment.time);
}

OrderPointer OrderLine::release() {
  OrderPointer released = std::make_shared<const OrderClock>(clock_);
  tick();
  return released;
}

Moment OrderLine::tick() {
  const Moment over = now();
  ++time_;
  clock_.set(now());
  return over;
}

std::unique_ptr<OrderLine> OrderLines::make(const OrderClock& start) {
  // A number may go on where its last line is over for the new one; else moments of the two would be confused.
  const auto reusable =
      std::find_if(ended_.begin(), ended_.end(), [&](const Moment& last) { return start.contains(last); });
  Moment begin{next_, 1};
  if (reusable != ended_.end()) {
    begin = {reusable->line, reusable->time + 1};
    ended_.erase(reusable);
  } else {
    ++next_;
  }
  auto line = std::make_unique<OrderLine>(begin.line, begin.time);
  line->acquire(start);
  return line;
}

}  // namespace reprise::emulator
