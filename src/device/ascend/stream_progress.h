#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/ascend/error_slot.h"
#include "device/ascend/interface/acl_runtime.h"

namespace reprise::device::ascend {

/// How far a stream has come, as far as the host knows. Submissions are numbered over all streams of a device.
struct StreamProgress {
  aclrtStream raw = nullptr;
  std::atomic<uint64_t> submitted{0};  ///< its last submission
  std::atomic<uint64_t> done{0};       ///< up to which its submissions have run
  std::atomic<bool> capturing{false};
  std::atomic<bool> fence_wanted{false};

  // A fence is an event behind a submission, by which others find out how far the stream is. It is recorded by the
  // stream's own thread (another one could put it into a capture). Guarded by the core's mutex.
  aclrtEvent fence = nullptr;
  uint64_t fence_sequence = 0;
  bool fence_pending = false;

  /// Of the stream's host functions.
  const std::shared_ptr<ErrorSlot> errors = std::make_shared<ErrorSlot>();
  /// Of the graphs that were replayed since the last wait. Guarded by the core's mutex.
  std::vector<std::shared_ptr<ErrorSlot>> graph_errors;

  bool busy() const { return done.load(std::memory_order_acquire) < submitted.load(std::memory_order_acquire); }
  void reach(uint64_t sequence) {
    uint64_t known = done.load(std::memory_order_relaxed);
    while (known < sequence && !done.compare_exchange_weak(known, sequence, std::memory_order_release)) {
    }
  }
};

}  // namespace reprise::device::ascend
