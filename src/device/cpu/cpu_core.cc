#include "device/cpu/cpu_core.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "device/cpu/capture_session.h"
#include "device/cpu/cpu_storage.h"

namespace reprise::device::cpu {
namespace {

/// Released memory that waits for queued work; above it, allocate() runs the work first. It bounds what eager code
/// takes beyond its live tensors, and is small enough to be found in the last-level cache again.
constexpr size_t kMaxWaitingBytes = size_t{16} << 20;

/// The calling thread's capture modes, one for each device on which it is not the default.
struct ThreadMode {
  std::weak_ptr<const CpuCore> core;
  CaptureMode mode;
};
thread_local std::vector<ThreadMode> thread_modes;

CaptureMode* find_thread_mode(const CpuCore& core) {
  std::erase_if(thread_modes, [](const ThreadMode& entry) { return entry.core.expired(); });
  for (ThreadMode& entry : thread_modes) {
    if (entry.core.lock().get() == &core) return &entry.mode;
  }
  return nullptr;
}

}  // namespace

CpuCore::CpuCore(const CpuOptions& options)
    : budget(cpu_budget()),
      discrete(options.discrete),
      team(options.threads > 0 ? options.threads : budget.cpus, budget.cpus),
      memory(options.discrete),
      executor(team, memory.map()) {}

std::shared_ptr<Storage> CpuCore::allocate(size_t bytes, MemoryKind kind) {
  std::vector<std::shared_ptr<const void>> expired;
  MemoryPool::Block block;
  {
    std::unique_lock lock(mutex);
    memory.reclaim(executor.done_sequence());
    if (memory.waiting_bytes() > kMaxWaitingBytes) {
      executor.run_ready(lock, nullptr, [] { return false; });
      memory.reclaim(executor.done_sequence());
    }
    expired = memory.take_expired_owners();
    block = memory.allocate(bytes, kind);
    ++counters.allocations;
    note_memory(MemoryRecord::Kind::kAllocate, block.data, bytes);
  }
  return std::make_shared<PoolStorage>(shared_from_this(), block, bytes);
}

std::shared_ptr<Arena> CpuCore::reserve_arena(size_t bytes) {
  std::byte* region = nullptr;
  {
    const std::lock_guard lock(mutex);
    region = memory.reserve(bytes);
  }
  return std::make_shared<CpuArena>(shared_from_this(), region, bytes);
}

std::shared_ptr<Storage> CpuCore::adopt(std::span<const std::byte> host, std::shared_ptr<const void> owner) {
  {
    const std::lock_guard lock(mutex);
    memory.adopt(host.data(), host.size());
  }
  return std::make_shared<AdoptedStorage>(shared_from_this(), host, std::move(owner));
}

void CpuCore::copy_now(void* destination, const void* source, unsigned char value, size_t bytes) {
  {
    const std::lock_guard lock(mutex);
    memory.map().open();
  }
  if (source == nullptr) {
    std::memset(destination, value, bytes);
  } else {
    std::memmove(destination, source, bytes);
  }
  const std::lock_guard lock(mutex);
  memory.map().close();
}

void CpuCore::reclaim() {
  std::vector<std::shared_ptr<const void>> expired;
  const std::lock_guard lock(mutex);
  memory.reclaim(executor.done_sequence());
  expired = memory.take_expired_owners();
}

bool CpuCore::forbids_unsafe_calls() const {
  if (sessions_.empty()) return false;
  const CaptureMode* exchanged = find_thread_mode(*this);
  const CaptureMode own = exchanged == nullptr ? CaptureMode::kGlobal : *exchanged;
  if (own == CaptureMode::kRelaxed) return false;
  bool any_global = false;
  std::optional<CaptureMode> by_this_thread;  // the strictest of the captures that this thread began
  for (const CaptureSession* session : sessions_) {
    any_global = any_global || session->mode() == CaptureMode::kGlobal;
    if (session->thread() == std::this_thread::get_id())
      by_this_thread = std::min(by_this_thread.value_or(CaptureMode::kRelaxed), session->mode());
  }
  if (own == CaptureMode::kGlobal) return any_global || by_this_thread == CaptureMode::kThreadLocal;
  return by_this_thread == CaptureMode::kGlobal || by_this_thread == CaptureMode::kThreadLocal;
}

CaptureMode CpuCore::exchange_capture_mode(CaptureMode mode) {
  if (CaptureMode* current = find_thread_mode(*this)) return std::exchange(*current, mode);
  thread_modes.push_back({weak_from_this(), mode});
  return CaptureMode::kGlobal;
}

}  // namespace reprise::device::cpu
