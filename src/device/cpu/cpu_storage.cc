#include "device/cpu/cpu_storage.h"

#include "base/error.h"

namespace reprise::device::cpu {

PoolStorage::~PoolStorage() {
  const std::lock_guard lock(core_->mutex);
  core_->memory.release(block_, core_->executor.last_sequence());
  core_->memory.reclaim(core_->executor.done_sequence());
  core_->note_memory(MemoryRecord::Kind::kFree, block_.data, bytes());
}

AdoptedStorage::~AdoptedStorage() {
  {
    const std::lock_guard lock(core_->mutex);
    core_->memory.release_adopted(static_cast<const std::byte*>(data()), std::move(owner_),
                                  core_->executor.last_sequence());
  }
  core_->reclaim();
}

CpuArena::~CpuArena() {
  {
    const std::lock_guard lock(core_->mutex);
    core_->memory.release_reservation(static_cast<std::byte*>(data()), committed_, core_->executor.last_sequence());
    core_->note_memory(MemoryRecord::Kind::kFree, data(), committed_);
  }
  core_->reclaim();
}

void CpuArena::commit(size_t wanted) {
  if (wanted > bytes()) {
    throw Error(ErrorCode::kInvalidArgument, "cannot commit {} bytes of an arena that reserves {}", wanted, bytes());
  }
  const std::lock_guard lock(core_->mutex);
  if (wanted <= committed_) return;
  core_->memory.commit(static_cast<std::byte*>(data()), committed_, wanted);
  core_->note_memory(MemoryRecord::Kind::kCommit, data(), wanted - committed_);
  committed_ = wanted;
}

size_t CpuArena::committed_bytes() const {
  const std::lock_guard lock(core_->mutex);
  return committed_;
}

}  // namespace reprise::device::cpu
