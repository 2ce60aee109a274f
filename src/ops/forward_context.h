#pragma once

#include "ops/dispatcher.h"
#include "ops/host_list.h"
#include "tensor/tensor.h"

namespace reprise::ops {

/// One step as model code sees it. T tokens of B sequences; a decode step has T = B. All device tensors are int32.
struct ForwardContext {
  explicit ForwardContext(Dispatcher& target) : dispatcher(target) {}

  Dispatcher& dispatcher;

  Tensor token_ids;        ///< [T]
  Tensor positions;        ///< [T] position of each token in its sequence
  Tensor slots;            ///< [T] KV slot that each token's entry is written to
  Tensor block_tables;     ///< [B, pages of the longest sequence] page numbers
  Tensor logit_rows;       ///< [B] index of the token whose logits are wanted; absent: of all tokens
  Tensor token_count;      ///< [1] tokens that are there: rows behind them are padding; absent: all T are
  Tensor sequence_slots;   ///< [B] slot of each sequence for state that is kept once per sequence; absent when unused
  HostList query_lengths;  ///< [B] tokens of each sequence in this step
  HostList kv_lengths;     ///< [B] tokens of each sequence after this step; 0 for padding
};

}  // namespace reprise::ops
