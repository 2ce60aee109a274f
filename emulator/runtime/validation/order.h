// What happens before what: vector clocks over the lines of execution (streams, lines of replays, the host).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::emulator {

/// A moment of one line.
struct Moment {
  uint32_t line = 0;
  uint64_t time = 0;
};

/// For each line the latest moment that is known to be over. A value.
class OrderClock {
 public:
  void join(const OrderClock& other);
  void set(Moment moment);
  /// Whether the moment is over for whoever has this clock.
  bool contains(Moment moment) const { return at(moment.line) >= moment.time; }
  uint64_t at(uint32_t line) const { return line < times_.size() ? times_[line] : 0; }

 private:
  std::vector<uint64_t> times_;  // by line
};

/// What a signal carries to those who wait for it.
using OrderPointer = std::shared_ptr<const OrderClock>;

/// Work in sequence. Not synchronised.
class OrderLine {
 public:
  OrderLine(uint32_t number, uint64_t start) : number_(number), time_(start) { clock_.set(now()); }

  Moment now() const { return {number_, time_}; }
  const OrderClock& clock() const { return clock_; }
  void acquire(const OrderClock& clock) { clock_.join(clock); }
  /// All that has happened on this line so far; what it does later is not part of it.
  OrderPointer release();
  /// As release(), without the clock.
  Moment tick();
  bool follows(Moment moment) const { return clock_.contains(moment); }

 private:
  uint32_t number_;
  uint64_t time_;
  OrderClock clock_;
};

/// Numbers of lines. Those of lines that ended are given again to lines that follow them, so that clocks stay short.
class OrderLines {
 public:
  std::unique_ptr<OrderLine> make(const OrderClock& start);
  void end(const OrderLine& line) { ended_.push_back(line.now()); }

 private:
  uint32_t next_ = 0;
  std::vector<Moment> ended_;
};

}  // namespace reprise::emulator
