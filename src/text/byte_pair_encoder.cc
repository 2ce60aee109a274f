#include "text/byte_pair_encoder.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/error.h"

namespace reprise::text {
namespace {

constexpr uint32_t kNoMerge = UINT32_MAX;

// Up to here rescanning all pairs beats a heap: a piece of ordinary text is a word.
constexpr size_t kShortPiece = 24;

}  // namespace

BytePairEncoder::BytePairEncoder(std::vector<int32_t> byte_ids, const std::vector<Merge>& merges)
    : byte_ids_(std::move(byte_ids)) {
  REPRISE_CHECK(byte_ids_.size() == 256);
  table_.resize(std::bit_ceil(merges.size() + merges.size() / 2 + 1));
  merged_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const auto rank = static_cast<uint32_t>(merged_.size());
    merged_.push_back(merge.merged);
    size_t slot = first_slot(merge.left, merge.right);
    while (table_[slot].left >= 0 && (table_[slot].left != merge.left || table_[slot].right != merge.right)) {
      slot = (slot + 1) & (table_.size() - 1);
    }
    table_[slot] = {merge.left, merge.right, rank};
  }
}

size_t BytePairEncoder::first_slot(int32_t left, int32_t right) const {
  const uint64_t key = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  // Fibonacci hashing of both halves mixed; the high bits are the good ones.
  const uint64_t hash = (key ^ key >> 29) * 0x9E3779B97F4A7C15u;
  return (hash >> 32) & (table_.size() - 1);
}

uint32_t BytePairEncoder::rank_of(int32_t left, int32_t right) const {
  for (size_t slot = first_slot(left, right);; slot = (slot + 1) & (table_.size() - 1)) {
    const Slot& entry = table_[slot];
    if (entry.left == left && entry.right == right) return entry.rank;
    if (entry.left < 0) return kNoMerge;
  }
}

void BytePairEncoder::encode_short(std::string_view piece, std::vector<int32_t>& out) const {
  int32_t ids[kShortPiece];
  uint32_t ranks[kShortPiece];  // ranks[i]: of the pair i, i + 1
  size_t count = piece.size();
  for (size_t i = 0; i < count; ++i) ids[i] = byte_ids_[static_cast<uint8_t>(piece[i])];
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = rank_of(ids[i], ids[i + 1]);
  while (count > 1) {
    const size_t best = static_cast<size_t>(std::min_element(ranks, ranks + count - 1) - ranks);
    if (ranks[best] == kNoMerge) break;
    ids[best] = merged_[ranks[best]];
    std::copy(ids + best + 2, ids + count, ids + best + 1);
    if (best + 2 < count) std::copy(ranks + best + 2, ranks + count - 1, ranks + best + 1);
    --count;
    if (best + 1 < count) ranks[best] = rank_of(ids[best], ids[best + 1]);
    if (best > 0) ranks[best - 1] = rank_of(ids[best - 1], ids[best]);
  }
  out.insert(out.end(), ids, ids + count);
}

void BytePairEncoder::encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  if (piece.size() <= kShortPiece) {
    encode_short(piece, out);
    return;
  }
  REPRISE_CHECK(piece.size() <= INT32_MAX);
  const auto count = static_cast<int32_t>(piece.size());
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  symbols.resize(piece.size());
  heap.clear();
  for (int32_t i = 0; i < count; ++i) {
    symbols[i] = {byte_ids_[static_cast<uint8_t>(piece[i])], i - 1, i + 1 < count ? i + 1 : -1, kNoMerge};
  }
  // A heap entry is rank and position: the smallest is the next merge. An entry whose rank is no longer its symbol's is
  // stale and skipped.
  const auto entry = [](uint32_t rank, int32_t position) {
    return uint64_t{rank} << 32 | static_cast<uint32_t>(position);
  };
  for (int32_t i = 0; i + 1 < count; ++i) {
    symbols[i].rank = rank_of(symbols[i].id, symbols[i + 1].id);
    if (symbols[i].rank != kNoMerge) heap.push_back(entry(symbols[i].rank, i));
  }
  const auto later = std::greater<uint64_t>();
  std::make_heap(heap.begin(), heap.end(), later);
  const auto update = [&](int32_t position) {
    auto& symbol = symbols[position];
    symbol.rank = symbol.next < 0 ? kNoMerge : rank_of(symbol.id, symbols[symbol.next].id);
    if (symbol.rank == kNoMerge) return;
    heap.push_back(entry(symbol.rank, position));
    std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const auto rank = static_cast<uint32_t>(heap.back() >> 32);
    const auto position = static_cast<int32_t>(heap.back() & UINT32_MAX);
    heap.pop_back();
    auto& symbol = symbols[position];
    if (symbol.rank != rank) continue;
    auto& consumed = symbols[symbol.next];
    symbol.id = merged_[rank];
    symbol.next = consumed.next;
    if (symbol.next >= 0) symbols[symbol.next].previous = position;
    consumed.rank = kNoMerge;
    update(position);
    if (symbol.previous >= 0) update(symbol.previous);
  }
  for (int32_t i = 0; i >= 0; i = symbols[i].next) out.push_back(symbols[i].id);
}

}  // namespace reprise::text
