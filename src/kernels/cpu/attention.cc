#include "kernels/cpu/attention.h"

#include "base/error.h"

#define REPRISE_KERNELS_USE_BF16_DOT 1
#define REPRISE_KERNELS "kernels/cpu/attention_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

AttentionPlan plan_attention(std::span<const int32_t> query_lengths, std::span<const int32_t> kv_lengths,
                             int64_t tokens, int64_t query_heads, int64_t kv_heads, int64_t head_dim,
                             std::span<int32_t> tail) {
  const auto sequences = static_cast<int64_t>(query_lengths.size());
  const int64_t tail_size = attention_tail_size(sequences);
  REPRISE_CHECK(kv_lengths.size() == query_lengths.size());
  REPRISE_CHECK(static_cast<int64_t>(tail.size()) >= tail_size);
  REPRISE_CHECK(head_dim >= 1 && head_dim <= kMaxAttentionHeadDim && kv_heads >= 1 && query_heads % kv_heads == 0);
  tail[0] = static_cast<int32_t>(sequences);
  tail[1] = 0;
  auto* items = reinterpret_cast<AttentionItem*>(tail.data() + 2);
  int64_t start = 0;
  int64_t tiles = 0;
  int64_t slots = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t queries = query_lengths[static_cast<size_t>(s)];
    const int64_t keys = kv_lengths[static_cast<size_t>(s)];
    if (queries < 0 || keys < 0 || (keys != 0 && keys < queries)) {
      throw Error(ErrorCode::kInvalidArgument, "attention: sequence {} has {} query rows and {} keys", s, queries,
                  keys);
    }
    const int64_t blocks = (keys + kAttentionBlock - 1) / kAttentionBlock;
    const bool split = queries <= kAttentionSplitRows;
    const int64_t row_slots = split ? blocks : keys > 0 ? 1 : 0;
    items[s] = {static_cast<int32_t>(start), static_cast<int32_t>(queries), static_cast<int32_t>(keys),
                static_cast<int32_t>(tiles), static_cast<int32_t>(slots),   static_cast<int32_t>(row_slots)};
    if (queries > 0 && keys > 0) {
      tiles += kv_heads * (split ? blocks : (queries + kAttentionGroupRows - 1) / kAttentionGroupRows);
    }
    slots += queries * query_heads * row_slots;
    start += queries;
  }
  if (start > tokens) {
    throw Error(ErrorCode::kInvalidArgument, "attention: {} query rows in all, but {} tokens", start, tokens);
  }
  REPRISE_CHECK(tiles <= INT32_MAX && slots <= INT32_MAX);
  items[sequences] = {static_cast<int32_t>(start), 0, 0, static_cast<int32_t>(tiles), static_cast<int32_t>(slots), 0};
  return {tail_size, tiles, tokens * query_heads, slots * attention_slot_floats(head_dim) * 4};
}

int64_t max_attention_workspace_bytes(int64_t max_tokens, int64_t max_sequences, int64_t query_heads, int64_t head_dim,
                                      int64_t max_kv_length) {
  const int64_t blocks = (max_kv_length + kAttentionBlock - 1) / kAttentionBlock;
  // Rows are dearest in sequences of few rows, which store every block; the others store one slot a row.
  const int64_t split_rows =
      max_sequences * kAttentionSplitRows < max_tokens ? max_sequences * kAttentionSplitRows : max_tokens;
  const int64_t slots = split_rows * blocks + (max_tokens - split_rows);
  return slots * query_heads * attention_slot_floats(head_dim) * 4;
}

const AttentionKernels& attention_kernels(InstructionSet set) { return REPRISE_SELECT(set, kAttentionKernels); }

}  // namespace reprise::kernels::cpu
