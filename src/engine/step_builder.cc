#include "engine/step_builder.h"

#include <algorithm>

#include "base/error.h"

namespace reprise::engine {

void StepBuilder::reserve(int32_t tokens, int32_t sequences, int32_t pages_per_sequence) {
  const auto token_count = static_cast<size_t>(tokens);
  const auto sequence_count = static_cast<size_t>(sequences);
  for (std::vector<int32_t>* list : {&batch_.token_ids, &batch_.positions, &batch_.slots}) list->reserve(token_count);
  for (std::vector<int32_t>* list : {&batch_.query_lengths, &batch_.kv_lengths, &batch_.sequence_slots}) {
    list->reserve(sequence_count);
  }
  batch_.block_tables.reserve(sequence_count * static_cast<size_t>(pages_per_sequence));
  pages_.reserve(sequence_count);
}

void StepBuilder::begin() {
  batch_.clear();
  pages_.clear();
}

int32_t StepBuilder::slot_of(int32_t position, std::span<const int32_t> pages) const {
  const int32_t size = pool_->page_size();
  return pages[static_cast<size_t>(position / size)] * size + position % size;
}

/// `pages`: those of them that are known.
void StepBuilder::add_row(int32_t count, int32_t position, std::span<const int32_t> pages, int32_t sequence_slot) {
  batch_.query_lengths.push_back(count);
  batch_.kv_lengths.push_back(position + count);
  if (pool_->has_sequence_state()) batch_.sequence_slots.push_back(sequence_slot);
  const int32_t used_pages = pool_->pages_for(int64_t{position} + count);
  pages_.push_back(pages.first(std::min(pages.size(), static_cast<size_t>(used_pages))));
  batch_.max_pages = std::max(batch_.max_pages, used_pages);
}

void StepBuilder::add(std::span<const int32_t> token_ids, int32_t position, std::span<const int32_t> pages,
                      int32_t sequence_slot) {
  const auto count = static_cast<int32_t>(token_ids.size());
  REPRISE_CHECK(pool_->pages_for(int64_t{position} + count) <= static_cast<int32_t>(pages.size()));
  batch_.token_ids.insert(batch_.token_ids.end(), token_ids.begin(), token_ids.end());
  for (int32_t at = position; at < position + count; ++at) {
    batch_.positions.push_back(at);
    batch_.slots.push_back(slot_of(at, pages));
  }
  add_row(count, position, pages, sequence_slot);
}

void StepBuilder::add_unknown(int32_t position, std::span<const int32_t> pages, int32_t sequence_slot) {
  REPRISE_CHECK(pool_->pages_for(position) <= static_cast<int32_t>(pages.size()));
  const bool has_page = pool_->pages_for(int64_t{position} + 1) <= static_cast<int32_t>(pages.size());
  batch_.token_ids.push_back(0);
  batch_.positions.push_back(position);
  batch_.slots.push_back(has_page ? slot_of(position, pages) : 0);
  add_row(1, position, pages, sequence_slot);
}

void StepBuilder::fill(int32_t row, int32_t token, std::span<const int32_t> pages) {
  const auto at = static_cast<size_t>(row);
  batch_.token_ids[at] = token;
  const int32_t position = batch_.positions[at];
  if (position % pool_->page_size() != 0) return;
  batch_.slots[at] = slot_of(position, pages);
  const auto column = static_cast<size_t>(position / pool_->page_size());
  batch_.block_tables[at * static_cast<size_t>(batch_.max_pages) + column] = pages[column];
}

replay::StepBatch& StepBuilder::finish() {
  // No kernel may read the entries behind a sequence's last page. Page 0 is scratch and harmless; in poison mode the
  // entries point nowhere.
  const int32_t unused = pool_->options().poison ? 0x7FFFFFFF : 0;
  const auto columns = static_cast<size_t>(batch_.max_pages);
  for (const std::span<const int32_t> pages : pages_) {
    batch_.block_tables.insert(batch_.block_tables.end(), pages.begin(), pages.end());
    batch_.block_tables.insert(batch_.block_tables.end(), columns - pages.size(), unused);
  }
  return batch_;
}

}  // namespace reprise::engine
