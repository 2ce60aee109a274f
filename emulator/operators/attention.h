// The first phase of fused attention.
#pragma once

#include "emulator/operators/plan.h"

namespace reprise::emulator {

/// The arguments of all its versions.
struct AttentionCall {
  const aclTensor* query = nullptr;
  const aclTensorList* key = nullptr;
  const aclTensorList* value = nullptr;
  const aclTensor* mask = nullptr;
  const aclIntArray* lengths = nullptr;
  const aclIntArray* kv_lengths = nullptr;
  const aclTensor* block_table = nullptr;
  const aclTensor* key_scale = nullptr;
  const aclTensor* value_scale = nullptr;
  int64_t heads = 0;
  double scale = 1;
  int64_t before = 0;
  int64_t after = 0;
  const char* layout = nullptr;
  int64_t kv_heads = 0;
  int64_t sparse_mode = 0;
  int64_t block_size = 0;
  bool wants_log_sum_exp = false;
  int64_t key_antiquant_mode = 0;
  int64_t value_antiquant_mode = 0;
  const aclTensor* out = nullptr;
  const aclTensor* log_sum_exp = nullptr;
  bool largest_workspace = false;  ///< for any lengths that the shapes allow
};

void build_attention(Plan& plan, const AttentionCall& call);

}  // namespace reprise::emulator
