#include "device/ascend/ascend_storage.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace reprise::device::ascend {
namespace {

/// Reclaiming may free memory of the device, which needs its context.
void release_quietly(AscendCore& core, const MemoryPool::Block& block, size_t bytes) noexcept {
  try {
    core.enter();
    core.release(block, bytes);
  } catch (const std::exception& error) {
    log_error("releasing memory: {}", error.what());
  }
}

}  // namespace

PoolStorage::~PoolStorage() { release_quietly(*core_, block_, bytes()); }
AscendArena::~AscendArena() { release_quietly(*core_, block_, bytes()); }

HeldBlock::~HeldBlock() {
  const std::lock_guard lock(core_->mutex);
  core_->retire_locked(block_, nullptr);
}

void AscendArena::commit(size_t wanted) {
  if (wanted > bytes()) {
    throw Error(ErrorCode::kInvalidArgument, "cannot commit {} bytes of an arena that reserves {}", wanted, bytes());
  }
}

}  // namespace reprise::device::ascend
