// Threads that run the emulated device's work.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace reprise::emulator {

/// As many threads as there is work at once: work may block for long, so nothing ever waits for a free thread. Idle
/// ones are kept and used again. Threads are detached: a process may exit while they block.
class ThreadPool {
 public:
  /// Starts `work` on some thread. It must not throw.
  void start(std::function<void()> work);
  /// Lets idle threads end and waits for all; the work must be about to end.
  void stop();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable ended_;
  std::deque<std::function<void()>> pending_;
  size_t idle_ = 0;
  size_t threads_ = 0;
  bool stopping_ = false;
};

}  // namespace reprise::emulator
