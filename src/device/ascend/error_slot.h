#pragma once

#include <exception>
#include <mutex>
#include <utility>

namespace reprise::device::ascend {

/// Carries the error of a host function from the runtime's thread to the one that synchronises.
class ErrorSlot {
 public:
  /// The first error counts.
  void put(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ == nullptr) error_ = std::move(error);
  }
  std::exception_ptr take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(error_, nullptr);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace reprise::device::ascend
