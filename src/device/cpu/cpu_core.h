#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/cpu_topology.h"
#include "base/thread_team.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/executor.h"
#include "device/cpu/memory_pool.h"
#include "device/observer.h"

namespace reprise::device::cpu {

class CaptureSession;

/// How long a destructor waits for a stream's or a graph's work before it gives up.
inline constexpr int kDestroyTimeoutMs = 10000;

/// What the handles of one device share: they keep it alive, so that the order of their destruction does not matter.
///
/// One mutex guards everything except what the executing thread owns (see Executor). It is held for moments only, never
/// while work runs.
class CpuCore : public std::enable_shared_from_this<CpuCore> {
 public:
  explicit CpuCore(const CpuOptions& options);

  std::mutex mutex;
  const CpuBudget budget;
  const bool discrete;
  ThreadTeam team;
  MemoryPool memory;
  Executor executor;
  DeviceCounters counters;

  // The functions below lock the mutex themselves.
  std::shared_ptr<Storage> allocate(size_t bytes, MemoryKind kind);
  std::shared_ptr<Arena> reserve_arena(size_t bytes);
  std::shared_ptr<Storage> adopt(std::span<const std::byte> host, std::shared_ptr<const void> owner);
  /// Copies, or fills when `source` is null, at once.
  void copy_now(void* destination, const void* source, unsigned char value, size_t bytes);
  /// Frees what waited for work that has run by now.
  void reclaim();

  // The functions below need the mutex locked.
  void begin_session(CaptureSession& session) { sessions_.push_back(&session); }
  void end_session(CaptureSession& session) { std::erase(sessions_, &session); }
  bool any_capture() const { return !sessions_.empty(); }
  /// Whether the live captures forbid the calling thread what is unsafe during capture.
  bool forbids_unsafe_calls() const;
  CaptureMode exchange_capture_mode(CaptureMode mode);
  /// Tells the observer, if there is one.
  void note_memory(MemoryRecord::Kind kind, const void* address, size_t bytes) {
    Observer* observer = executor.observer();
    if (observer != nullptr) [[unlikely]]
      observer->on_memory({kind, address, bytes, memory.allocated_bytes()});
  }

 private:
  std::vector<CaptureSession*> sessions_;  ///< live captures
};

}  // namespace reprise::device::cpu
