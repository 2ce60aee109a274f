#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "engine/prefix_cache.h"
#include "model/kv_layout.h"
#include "tensor/tensor.h"

namespace reprise::engine {

/// Tokens of a page at most.
inline constexpr int32_t kMostPageSize = 65536;

struct KvPoolOptions {
  int32_t page_size = 16;     ///< tokens of a page
  int64_t tokens = 0;         ///< capacity for requests, rounded up to pages; scratch comes on top
  int32_t sequences = 1;      ///< capacity of state kept once per sequence; scratch comes on top
  int32_t scratch_slots = 1;  ///< rows of the largest bucket: padded row i writes slot i
  bool poison = false;        ///< debug: what is not in use holds 0xFF bytes, which are NaN in every float type
  uint64_t shuffle_seed = 0;  ///< not 0: pages are given out in a random order, for tests
  /// Full pages can be found again by their tokens. Without effect where the model keeps state for each sequence, which
  /// no page holds.
  bool prefix_cache = false;
};

/// The KV cache: pages for what is kept per token, slots for what is kept per sequence. The first pages and slots are
/// scratch, reserved for ever. A page has holders, and is given out again when it has none; with a prefix cache full
/// pages are kept until others are needed, those that were given up first going first. Page p holds the token slots [p
/// * page_size, (p + 1) * page_size) of every per-token buffer. For one thread.
class KvPool {
 public:
  /// Allocates everything at once. kInvalidArgument for options out of range, kOutOfMemory.
  KvPool(device::Device& device, model::KvLayout layout, const KvPoolOptions& options);

  /// One tensor per buffer of the layout: [pages, page size, entry...] or [sequence slots, entry...].
  std::span<const Tensor> tensors() const { return tensors_; }
  const model::KvLayout& layout() const { return layout_; }
  const KvPoolOptions& options() const { return options_; }
  int32_t page_size() const { return options_.page_size; }
  int32_t pages() const { return pages_; }                  ///< with scratch
  int32_t scratch_pages() const { return scratch_pages_; }  ///< the first ones
  /// Pages that can be allocated: those kept in the prefix cache alone count.
  int32_t free_pages() const { return static_cast<int32_t>(free_pages_.size()) + cached_pages(); }
  /// Pages that the prefix cache alone keeps.
  int32_t cached_pages() const { return cache_ ? cache_->unused() : 0; }
  /// Pages that requests can have when nothing runs.
  int32_t usable_pages() const { return pages_ - scratch_pages_; }
  /// Tokens that requests can have when nothing runs.
  int64_t usable_tokens() const { return int64_t{usable_pages()} * options_.page_size; }
  /// Tokens in the pages that requests hold.
  int64_t used_tokens() const { return int64_t{usable_pages() - free_pages()} * options_.page_size; }
  int32_t pages_for(int64_t tokens) const {
    return static_cast<int32_t>((tokens + options_.page_size - 1) / options_.page_size);
  }
  bool has_sequence_state() const { return has_sequence_state_; }
  int32_t free_sequence_slots() const { return static_cast<int32_t>(free_slots_.size()); }
  size_t bytes() const { return bytes_; }

  /// Appends `count` pages to `pages`, anywhere in the pool, each with one holder. False, and nothing done, when there
  /// are not so many.
  bool allocate(int32_t count, std::vector<int32_t>& pages);
  /// Each page has one holder less. In poison mode the content of those that are not kept turns to NaN. The pages are
  /// of one sequence, in its order: the last ones are the first to go from the cache. kInternal for a page that is
  /// scratch or free.
  void release(std::span<const int32_t> pages);

  bool has_prefix_cache() const { return cache_.has_value(); }
  /// The page that holds `tokens`, a page full, behind those of the node `parent`, with one more holder.
  std::optional<PrefixCache::Node> find_cached(PrefixCache::NodeId parent, std::string_view salt,
                                               std::span<const int32_t> tokens);
  /// Lets the prefix cache know what a held page is full of. When another page holds just that, the caller gets that
  /// one instead, and gives up its own.
  PrefixCache::Node add_cached(int32_t page, PrefixCache::NodeId parent, std::string_view salt,
                               std::span<const int32_t> tokens);
  /// Forgets what pages hold; those without holders are free at once.
  void flush_cache();

  /// A slot whose state is all zeros, or -1 when there is none.
  int32_t allocate_sequence_slot();
  void release_sequence_slot(int32_t slot);

  /// Hash of a page's content in all per-token buffers: the same for the same bytes wherever the page lies.
  uint64_t page_checksum(int32_t page) const;
  /// Hash of a slot's content in all per-sequence buffers.
  uint64_t sequence_checksum(int32_t slot) const;

 private:
  void create_tensors();
  bool is_held(int32_t page) const { return holders_[static_cast<size_t>(page)] > 0; }
  void free_page(int32_t page);
  void fill_entries(model::KvBuffer::Granularity granularity, int32_t index, unsigned char value);
  uint64_t checksum(model::KvBuffer::Granularity granularity, int32_t index) const;
  size_t entry_bytes(const model::KvBuffer& buffer) const;

  device::Device& device_;
  model::KvLayout layout_;
  KvPoolOptions options_;
  int32_t pages_ = 0;
  int32_t scratch_pages_ = 0;
  bool has_sequence_state_ = false;
  size_t bytes_ = 0;
  std::vector<Tensor> tensors_;
  std::vector<int32_t> free_pages_;
  std::vector<int32_t> free_slots_;
  std::vector<int32_t> holders_;  // of each page
  std::optional<PrefixCache> cache_;
  std::vector<bool> slot_used_;
  std::mt19937_64 shuffle_;
};

/// What one request reserves: every token but the last one produced enters the cache.
struct RequestSize {
  int32_t prompt_tokens = 0;
  int32_t max_new_tokens = 0;
  /// The prompt is read, for its log probabilities, though nothing may be produced.
  bool prompt_is_read = false;
  int64_t kv_tokens() const {
    if (max_new_tokens == 0) return prompt_is_read ? prompt_tokens : 0;
    return int64_t{prompt_tokens} + max_new_tokens - 1;
  }
};

/// The capacity with which `max_running` of these requests, whichever, run at the same time.
int64_t kv_tokens_for(std::span<const RequestSize> requests, int32_t max_running, int32_t page_size);

}  // namespace reprise::engine
