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
  explicit StepBuilder(const KvPool& pool) : pool_(&pool) {}

  void reserve(int32_t tokens, int32_t sequences, int32_t pages_per_sequence);
  void begin();
  /// Adds the tokens of one sequence that follow its first `position` ones. `pages` must hold them all and stay valid
  /// until finish(); `sequence_slot` counts only when the pool has such state.
  void add(std::span<const int32_t> token_ids, int32_t position, std::span<const int32_t> pages, int32_t sequence_slot);
  /// The same for one token that is not known yet, nor, where it is the first of a page, the page.
  void add_unknown(int32_t position, std::span<const int32_t> pages, int32_t sequence_slot);
  /// The batch of what was added; valid until the next begin().
  replay::StepBatch& finish();
  /// In a finished batch of one unknown token for each sequence: fills in the token of a row, and the last page if that
  /// was not known.
  void fill(int32_t row, int32_t token, std::span<const int32_t> pages);
  const replay::StepBatch& batch() const { return batch_; }

 private:
  int32_t slot_of(int32_t position, std::span<const int32_t> pages) const;
  void add_row(int32_t count, int32_t position, std::span<const int32_t> pages, int32_t sequence_slot);

  const KvPool* pool_;
  replay::StepBatch batch_;
  std::vector<std::span<const int32_t>> pages_;
};

}  // namespace reprise::engine
