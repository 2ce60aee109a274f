#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv_pool.h"
#include "replay/step_batch.h"

namespace reprise::engine {

/// Puts a StepBatch together, sequence by sequence. Reused from step to step: allocates nothing once it has seen a step
/// as large, or within what was reserved.
class StepBuilder {
 public:
  explicit StepBuilder(const KvPool& pool) : pool_(pool) {}

  void reserve(int32_t tokens, int32_t sequences, int32_t pages_per_sequence);
  void begin();
  /// Adds the tokens of one sequence that follow its first `position` ones. `pages` must hold them all and stay valid
  /// until finish(); `sequence_slot` counts only when the pool has such state.
  void add(std::span<const int32_t> token_ids, int32_t position, std::span<const int32_t> pages, int32_t sequence_slot);
  /// The batch of what was added; valid until the next begin().
  replay::StepBatch& finish();

 private:
  const KvPool& pool_;
  replay::StepBatch batch_;
  std::vector<std::span<const int32_t>> pages_;
};

}  // namespace reprise::engine
