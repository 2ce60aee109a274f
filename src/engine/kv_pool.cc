#include "engine/kv_pool.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace reprise::engine {
namespace {

using Granularity = model::KvBuffer::Granularity;

// 0xFF in every byte is a NaN in float32, bfloat16 and float16; of int8 caches the scales are NaN.
constexpr unsigned char kPoison = 0xFF;

void require(bool allowed, const char* field, int64_t value, const char* range) {
  if (!allowed)
    throw Error(ErrorCode::kInvalidArgument, "{} of the KV cache is {}, but must be {}", field, value, range);
}

void check_page_size(int32_t page_size) {
  require(page_size >= 1 && page_size <= kMostPageSize, "page_size", page_size, "between 1 and 65536");
}

void check_options(const KvPoolOptions& options) {
  check_page_size(options.page_size);
  require(options.tokens >= 1, "tokens", options.tokens, "at least 1");
  require(options.sequences >= 1, "sequences", options.sequences, "at least 1");
  require(options.scratch_slots >= 0, "scratch_slots", options.scratch_slots, "at least 0");
  // Slots are int32 on the device.
  const int64_t slots = options.tokens + options.scratch_slots + int64_t{2} * options.page_size;
  require(options.tokens <= std::numeric_limits<int32_t>::max() && slots <= std::numeric_limits<int32_t>::max(),
          "tokens", options.tokens, "so that slots fit into 31 bits");
}

// FNV-1a over 8-byte words; the tail is padded with zeros.
uint64_t hash_bytes(uint64_t hash, std::span<const std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), std::min(sizeof(word), bytes.size() - at),
                reinterpret_cast<std::byte*>(&word));
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

KvPool::KvPool(device::Device& device, model::KvLayout layout, const KvPoolOptions& options)
    : device_(device), layout_(std::move(layout)), options_(options), shuffle_(options.shuffle_seed) {
  check_options(options_);
  scratch_pages_ = pages_for(options_.scratch_slots);
  pages_ = scratch_pages_ + pages_for(options_.tokens);
  holders_.assign(static_cast<size_t>(pages_), 0);
  const int32_t slots = options_.scratch_slots + options_.sequences;
  slot_used_.assign(static_cast<size_t>(slots), false);
  create_tensors();
  if (options_.prefix_cache && !has_sequence_state_) cache_.emplace(pages_, options_.page_size);
  // Descending, so that the first pages are given out first.
  free_pages_.reserve(static_cast<size_t>(usable_pages()));
  for (int32_t page = pages_ - 1; page >= scratch_pages_; --page) free_pages_.push_back(page);
  if (options_.shuffle_seed != 0) std::shuffle(free_pages_.begin(), free_pages_.end(), shuffle_);
  free_slots_.reserve(static_cast<size_t>(options_.sequences));
  for (int32_t slot = slots - 1; slot >= options_.scratch_slots; --slot) free_slots_.push_back(slot);
}

void KvPool::create_tensors() {
  for (const model::KvBuffer& buffer : layout_.buffers) {
    Shape shape;
    if (buffer.granularity == Granularity::kToken) {
      shape = {pages_, options_.page_size};
    } else {
      shape = {options_.scratch_slots + options_.sequences};
      has_sequence_state_ = true;
    }
    for (const Dim& dim : buffer.entry) shape.push_back(dim);
    const TensorMeta meta(buffer.dtype, shape);
    const size_t bytes = meta.contiguous_bytes();
    std::shared_ptr<Storage> storage;
    try {
      storage = device_.allocate(std::max<size_t>(bytes, 1));
    } catch (Error& error) {
      error.add_context(fmt::format("allocating {} of the KV cache ({} bytes for {} tokens, {} allocated before)",
                                    buffer.name, bytes, options_.tokens, bytes_));
      throw;
    }
    if (options_.poison) device_.fill(storage->data(), kPoison, bytes);
    tensors_.emplace_back(meta, std::move(storage));
    bytes_ += bytes;
  }
}

bool KvPool::allocate(int32_t count, std::vector<int32_t>& pages) {
  if (count > free_pages()) return false;
  for (int32_t i = 0; i < count; ++i) {
    if (free_pages_.empty()) {
      const int32_t oldest = cache_->oldest_unused();
      cache_->erase(oldest);
      free_page(oldest);
    }
    if (options_.shuffle_seed != 0) {
      std::swap(free_pages_[shuffle_() % free_pages_.size()], free_pages_.back());
    }
    holders_[static_cast<size_t>(free_pages_.back())] = 1;
    pages.push_back(free_pages_.back());
    free_pages_.pop_back();
  }
  return true;
}

void KvPool::release(std::span<const int32_t> pages) {
  for (size_t i = pages.size(); i-- > 0;) {
    const int32_t page = pages[i];
    REPRISE_CHECK(page >= scratch_pages_ && page < pages_ && is_held(page));
    if (--holders_[static_cast<size_t>(page)] > 0) continue;
    if (cache_ && cache_->contains(page)) {
      cache_->add_unused(page);
    } else {
      free_page(page);
    }
  }
}

void KvPool::free_page(int32_t page) {
  if (options_.poison) fill_entries(Granularity::kToken, page, kPoison);
  free_pages_.push_back(page);
}

std::optional<PrefixCache::Node> KvPool::find_cached(PrefixCache::NodeId parent, std::string_view salt,
                                                     std::span<const int32_t> tokens) {
  if (!cache_) return std::nullopt;
  const std::optional<PrefixCache::Node> found = cache_->find(parent, salt, tokens);
  if (!found) return std::nullopt;
  if (!is_held(found->page)) cache_->take_unused(found->page);
  ++holders_[static_cast<size_t>(found->page)];
  return found;
}

PrefixCache::Node KvPool::add_cached(int32_t page, PrefixCache::NodeId parent, std::string_view salt,
                                     std::span<const int32_t> tokens) {
  REPRISE_CHECK(cache_ && is_held(page));
  if (const std::optional<PrefixCache::Node> found = find_cached(parent, salt, tokens)) {
    release({&page, 1});
    return *found;
  }
  return cache_->insert(page, parent, salt, tokens);
}

void KvPool::flush_cache() {
  if (!cache_) return;
  for (int32_t page = scratch_pages_; page < pages_; ++page) {
    if (!cache_->contains(page)) continue;
    cache_->erase(page);
    if (!is_held(page)) free_page(page);
  }
}

int32_t KvPool::allocate_sequence_slot() {
  if (free_slots_.empty()) return -1;
  const int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slot_used_[static_cast<size_t>(slot)] = true;
  fill_entries(Granularity::kSequence, slot, 0);
  return slot;
}

void KvPool::release_sequence_slot(int32_t slot) {
  REPRISE_CHECK(slot >= options_.scratch_slots && slot < static_cast<int32_t>(slot_used_.size()) &&
                slot_used_[static_cast<size_t>(slot)]);
  slot_used_[static_cast<size_t>(slot)] = false;
  if (options_.poison) fill_entries(Granularity::kSequence, slot, kPoison);
  free_slots_.push_back(slot);
}

size_t KvPool::entry_bytes(const model::KvBuffer& buffer) const {
  const bool paged = buffer.granularity == Granularity::kToken;
  return buffer.entry_bytes() * (paged ? static_cast<size_t>(options_.page_size) : 1);
}

void KvPool::fill_entries(Granularity granularity, int32_t index, unsigned char value) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (layout_.buffers[i].granularity != granularity) continue;
    const size_t bytes = entry_bytes(layout_.buffers[i]);
    device_.fill(tensors_[i].data_as<std::byte>() + static_cast<size_t>(index) * bytes, value, bytes);
  }
}

uint64_t KvPool::page_checksum(int32_t page) const {
  REPRISE_CHECK(page >= 0 && page < pages_);
  return checksum(Granularity::kToken, page);
}

uint64_t KvPool::sequence_checksum(int32_t slot) const {
  REPRISE_CHECK(slot >= 0 && slot < static_cast<int32_t>(slot_used_.size()));
  return checksum(Granularity::kSequence, slot);
}

uint64_t KvPool::checksum(Granularity granularity, int32_t index) const {
  uint64_t hash = 0xCBF29CE484222325u;
  std::vector<std::byte> host;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (layout_.buffers[i].granularity != granularity) continue;
    host.resize(entry_bytes(layout_.buffers[i]));
    device_.copy(host.data(), tensors_[i].data_as<std::byte>() + static_cast<size_t>(index) * host.size(), host.size(),
                 device::CopyKind::kDeviceToHost);
    hash = hash_bytes(hash, host);
  }
  return hash;
}

int64_t kv_tokens_for(std::span<const RequestSize> requests, int32_t max_running, int32_t page_size) {
  check_page_size(page_size);
  std::vector<int64_t> sizes;
  for (const RequestSize& request : requests) {
    sizes.push_back((request.kv_tokens() + page_size - 1) / page_size * page_size);
  }
  const size_t count = std::min(sizes.size(), static_cast<size_t>(std::max(max_running, 0)));
  std::partial_sort(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count), sizes.end(), std::greater<>());
  return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count), int64_t{0});
}

}  // namespace reprise::engine
