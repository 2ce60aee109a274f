// The kernel of fused attention: its tensors, parameters and the sequences in its tail.
#pragma once

#include "emulator/kernel.h"
#include "emulator/operators/kernel_arguments.h"

namespace reprise::emulator {

// What the kernel reads, then what it writes.
enum AttentionTensor : size_t {
  kQuery,
  kKey,
  kValue,
  kMask,
  kBlockTable,
  kKeyScale,
  kValueScale,
  kAttentionOut,
  kLogSumExp,
  kScores  ///< workspace: the scores of one row
};

/// Elements between neighbouring tokens and heads of a tensor.
struct TokenStrides {
  int64_t token = 0;
  int64_t head = 0;
};

/// Which keys a row sees beside a mask: those of `first + row - before` to `first + row + after`, where `first` is 0 or
/// (right-aligned) the number of keys less that of rows.
struct Band {
  int64_t before = 0;
  int64_t after = 0;
  int64_t right_aligned = 0;
};

/// How int8 keys and values become numbers.
enum class Antiquant : int64_t { kNone = -1, kChannel = 0, kPagedToken = 4, kPagedTokenHead = 5 };

struct AttentionParameters {
  int64_t sequences = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t columns = 0;
  double scale = 1;
  Band band;
  TokenStrides query, key, out, log_sum_exp;
  int64_t page = 0;         ///< tokens of a page; 0: keys are not paged
  int64_t page_stride = 0;  ///< elements between pages
  int64_t pages = 0;
  Antiquant key_antiquant = Antiquant::kNone;
  Antiquant value_antiquant = Antiquant::kNone;
};

/// One sequence: where its rows begin, in elements of each tensor.
struct AttentionSequence {
  int64_t query = 0;
  int64_t out = 0;
  int64_t key = 0;  ///< of the block table, where there is one
  int64_t log_sum_exp = 0;
  int64_t mask = 0;
  int64_t rows = 0;
  int64_t keys = 0;
  int64_t padding_rows = 0;  ///< behind the others, which become 0
};

inline constexpr size_t kSequenceValues = sizeof(AttentionSequence) / sizeof(int64_t);

const Kernel& attention_kernel();

}  // namespace reprise::emulator
