#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace reprise::text {

/// Merges the bytes of a piece into tokens: again and again the adjacent pair of the lowest rank, the leftmost of
/// equals. Time O(n log n) for n bytes, constant stack. Immutable, shared by threads.
class BytePairEncoder {
 public:
  /// A rule: the tokens `left` and `right` side by side become `merged`. Its index in the list is its rank.
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t merged;
  };

  /// What encoding writes to, reusable by one thread at a time.
  struct Scratch {
    struct Symbol {
      int32_t id;
      int32_t previous;
      int32_t next;
      uint32_t rank;  ///< of the pair that begins here
    };
    std::vector<Symbol> symbols;
    std::vector<uint64_t> heap;
  };

  BytePairEncoder() = default;
  /// `byte_ids[b]` is the token of byte b. If two merges have the same pair the later one counts, as in Hugging Face's.
  BytePairEncoder(std::vector<int32_t> byte_ids, const std::vector<Merge>& merges);

  /// Appends the ids of `piece`'s tokens; at most 2^31 - 1 bytes.
  void encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const;

 private:
  struct Slot {
    int32_t left = -1;
    int32_t right = -1;
    uint32_t rank = 0;
  };
  uint32_t rank_of(int32_t left, int32_t right) const;
  size_t first_slot(int32_t left, int32_t right) const;
  void encode_short(std::string_view piece, std::vector<int32_t>& out) const;

  std::vector<int32_t> byte_ids_;
  std::vector<int32_t> merged_;  // by rank
  std::vector<Slot> table_;      // open addressing, a power of two long, never full
};

}  // namespace reprise::text
