#include "engine/prefix_cache.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"

namespace reprise::engine {
namespace {

uint64_t hash_node(PrefixCache::NodeId parent, std::string_view salt, std::span<const int32_t> tokens) {
  uint64_t hash = mix_bits(parent + 1);
  if (parent == PrefixCache::kRoot) hash = hash_text(salt, hash);
  for (const int32_t token : tokens) hash = mix_bits(hash + static_cast<uint32_t>(token));
  return hash;
}

}  // namespace

PrefixCache::PrefixCache(int32_t pages, int32_t page_size)
    : page_size_(static_cast<size_t>(page_size)),
      entries_(static_cast<size_t>(pages)),
      tokens_(static_cast<size_t>(pages) * page_size_),
      buckets_(std::bit_ceil(static_cast<size_t>(std::max(pages, 1))), -1) {}

std::optional<PrefixCache::Node> PrefixCache::find(NodeId parent, std::string_view salt,
                                                   std::span<const int32_t> tokens) const {
  REPRISE_CHECK(tokens.size() == page_size_);
  const uint64_t hash = hash_node(parent, salt, tokens);
  for (int32_t page = buckets_[hash & (buckets_.size() - 1)]; page >= 0; page = entry(page).next) {
    const Entry& found = entry(page);
    if (found.hash != hash || found.parent != parent) continue;
    if (parent == kRoot && found.salt != salt) continue;
    const auto begin = tokens_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(page) * page_size_);
    if (std::equal(tokens.begin(), tokens.end(), begin)) return Node{page, found.id};
  }
  return std::nullopt;
}

PrefixCache::Node PrefixCache::insert(int32_t page, NodeId parent, std::string_view salt,
                                      std::span<const int32_t> tokens) {
  REPRISE_CHECK(!contains(page) && tokens.size() == page_size_);
  Entry& added = entry(page);
  added.hash = hash_node(parent, salt, tokens);
  added.parent = parent;
  if (parent == kRoot) added.salt = salt;
  std::copy(tokens.begin(), tokens.end(), tokens_of(page).begin());
  added.next = bucket(added.hash);
  bucket(added.hash) = page;
  added.id = ++last_id_;
  return {page, added.id};
}

void PrefixCache::erase(int32_t page) {
  REPRISE_CHECK(contains(page));
  Entry& erased = entry(page);
  if (erased.is_unused) take_unused(page);
  int32_t* link = &bucket(erased.hash);
  while (*link != page) link = &entry(*link).next;
  *link = erased.next;
  erased = Entry();
}

void PrefixCache::add_unused(int32_t page) {
  Entry& added = entry(page);
  REPRISE_CHECK(contains(page) && !added.is_unused);
  added.is_unused = true;
  added.older = newest_;
  added.newer = -1;
  (newest_ >= 0 ? entry(newest_).newer : oldest_) = page;
  newest_ = page;
  ++unused_;
}

void PrefixCache::take_unused(int32_t page) {
  Entry& taken = entry(page);
  REPRISE_CHECK(taken.is_unused);
  taken.is_unused = false;
  (taken.older >= 0 ? entry(taken.older).newer : oldest_) = taken.newer;
  (taken.newer >= 0 ? entry(taken.newer).older : newest_) = taken.older;
  --unused_;
}

}  // namespace reprise::engine
