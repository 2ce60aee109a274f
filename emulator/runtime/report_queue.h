// Callbacks on their way from streams to the threads that run them (aclrtProcessReport).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "emulator/runtime/task.h"

namespace reprise::emulator {

/// Guarded by Runtime::mutex().
class ReportQueue {
 public:
  struct Report {
    aclrtCallback function = nullptr;
    void* data = nullptr;
    bool done = false;
  };

  std::shared_ptr<Report> push(uint64_t thread, aclrtCallback function, void* data);
  /// The thread's next one; null when none came within `limit`. Without a limit it waits.
  std::shared_ptr<Report> pop(Lock& lock, uint64_t thread, std::optional<std::chrono::milliseconds> limit);
  void clear() { pending_.clear(); }

 private:
  std::map<uint64_t, std::deque<std::shared_ptr<Report>>> pending_;
  std::condition_variable arrived_;
};

}  // namespace reprise::emulator
