#include "replay/graph_pool.h"

#include <algorithm>

#include "compile/memory_plan.h"

namespace reprise::replay {

const std::shared_ptr<device::Arena>& GraphPool::acquire(size_t bytes) {
  bytes = std::max(bytes, compile::kAlignment);
  if (arena_ == nullptr || arena_->bytes() < bytes) {
    arena_ = device_.reserve_arena(bytes);
    // Where a reservation is address space only, it is plentiful: room to grow, so that most larger graphs find their
    // place in the same arena. Where all of it is memory from the start, it is as large as need be.
    constexpr size_t kGrowth = 16;
    if (arena_->committed_bytes() < arena_->bytes()) arena_ = device_.reserve_arena(bytes * kGrowth);
  }
  if (arena_->committed_bytes() < bytes) arena_->commit(bytes);
  return arena_;
}

}  // namespace reprise::replay
