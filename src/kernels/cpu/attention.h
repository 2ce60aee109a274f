#pragma once

#include <span>

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"

namespace reprise::kernels::cpu {

/// Keys are cut here: block b of a sequence holds its keys [256 b, 256 (b + 1)), whatever the page size, the batch, the
/// threads and the query rows are. Results depend on this number and on nothing else of how the work is dealt.
inline constexpr int64_t kAttentionBlock = 256;
inline constexpr int64_t kMaxAttentionHeadDim = 512;

/// Grouped-query attention over paged keys and values, for sequences with any number of query rows each. Query row r of
/// sequence s sits at position kv_length - query_length + r and sees the keys 0 to that position.
///
/// Per row, head and block: scores = dot(q, k) * scale, their maximum m, p = e^(score - m), l = sum of p, acc = sum of
/// p * v over ascending keys. Blocks are folded in ascending order by
///   m' = max(m, m_b), l' = l e^(m - m') + l_b e^(m_b - m'), acc' likewise,
/// and y = acc / l is rounded once. All in float32; where there are bf16 dot products and both are bfloat16, dot(q, k)
/// adds neighbouring products to each other first.
///
/// Caches of int8 have a scale for each key, value and kv head: score = dot(q, k) * (scale of k * scale), and acc = sum
/// of (p * scale of v) * v.
///
/// Two launches with the same arguments and tail: `partial` (plan.partial_tiles), then `merge` (plan.merge_tiles).
/// For a sequence of few query rows the first computes its blocks apart, for the others it folds them itself. Rows
/// without keys (kv length 0) and rows after the last sequence get zeros and read nothing. An entry of the block table
/// outside of the cache, where a key is needed, makes the rows NaN.
struct AttentionArguments {
  const void* query;           ///< [tokens, query_heads, head_dim]
  Element query_element;       ///< of query and y: float32 or bfloat16; that of the caches unless they are int8
  const void* key_cache;       ///< [pages, page_size, kv_heads, head_dim]
  const void* value_cache;     ///< the same shape
  const float* key_scales;     ///< [pages, page_size, kv_heads] of int8 caches, else null
  const float* value_scales;   ///< the same shape, or null
  const int32_t* block_table;  ///< [sequences, block_table_stride]
  void* y;                     ///< [tokens, query_heads, head_dim], elements as query
  float* workspace;            ///< max_attention_workspace_bytes(), aligned to 64 bytes
  int64_t tokens;
  int64_t query_heads;
  int64_t kv_heads;
  int64_t head_dim;  ///< 1 to kMaxAttentionHeadDim
  int64_t pages;
  int64_t page_size;
  int64_t block_table_stride;
  int64_t query_row_stride;
  int64_t y_row_stride;
  float scale;
  float unused = 0;  ///< fills the gap
};

struct AttentionPlan {
  int64_t tail_size;  ///< values written to the tail
  int64_t partial_tiles;
  int64_t merge_tiles;
  int64_t workspace_bytes;  ///< what this plan needs, at most max_attention_workspace_bytes()
};

/// Values of the tail for this number of sequences.
constexpr int64_t attention_tail_size(int64_t sequences) { return 2 + 6 * (sequences + 1); }

/// Turns the host's lists into the tail. `tokens` may exceed the sum of the query lengths (padding rows). Throws
/// kInvalidArgument for negative or contradictory lengths. Allocates nothing.
AttentionPlan plan_attention(std::span<const int32_t> query_lengths, std::span<const int32_t> kv_lengths,
                             int64_t tokens, int64_t query_heads, int64_t kv_heads, int64_t head_dim,
                             std::span<int32_t> tail);

/// No plan within these bounds needs more workspace.
int64_t max_attention_workspace_bytes(int64_t max_tokens, int64_t max_sequences, int64_t query_heads, int64_t head_dim,
                                      int64_t max_kv_length);

struct AttentionKernels {
  KernelFunction partial[2];  ///< [element of query, y and caches]
  KernelFunction partial_int8;
  KernelFunction merge[2];  ///< [element of query and y]
};
const AttentionKernels& attention_kernels(InstructionSet set);

}  // namespace reprise::kernels::cpu
