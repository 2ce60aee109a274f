#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace reprise::server {

class EventSink {
 public:
  virtual ~EventSink() = default;
  /// There are events to be taken. It must be quick: others wait for theirs.
  virtual void on_events() = 0;
};

/// Tells the server's threads of events that the engine's thread has left at sinks: of all sinks together, and so
/// rarely that waking those threads, writing to clients and waking these costs a fast model little. It tells at the end
/// of a turn of the engine: then its other threads do nothing that it would have to wait for. Events that come within
/// the gather time behind others wait for a later turn; what is urgent does not.
class EventRelay : public std::enable_shared_from_this<EventRelay> {
 public:
  struct Executor {
    /// Runs a task on the server's threads, one task at a time; the second one after some time.
    std::function<void(std::function<void()>)> post;
    std::function<void(std::chrono::milliseconds, std::function<void()>)> post_after;
    /// Runs a task that takes longer, beside others.
    std::function<void(std::function<void()>)> work;
  };

  EventRelay(Executor executor, std::chrono::milliseconds gather_time)
      : executor_(std::move(executor)), gather_time_(gather_time) {}

  /// The sink has events. Nothing is told before end_turn(). Once is enough until on_events() is called.
  void push(std::shared_ptr<EventSink> sink, bool urgent);
  void end_turn();
  /// Runs a task that takes longer.
  void work(std::function<void()> task);
  /// From here on nothing is posted any more: what comes is dropped, and what has come.
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  using Sinks = std::vector<std::shared_ptr<EventSink>>;

  void deliver(Sinks EventRelay::* list);
  void watch();
  void look();

  const Executor executor_;
  const std::chrono::milliseconds gather_time_;
  std::mutex mutex_;
  Sinks urgent_;
  Sinks gathered_;
  bool urgent_posted_ = false;
  bool gathered_posted_ = false;
  bool watched_ = false;                 ///< look() is to come
  Clock::time_point gather_until_ = {};  ///< what comes until then waits
  bool closed_ = false;
};

}  // namespace reprise::server
