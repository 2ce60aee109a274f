#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/kv_cache.h"
#include "ops/registry.h"

namespace reprise::ops {

/// Causal attention over paged keys and values, for decode and chunked prefill alike: softmax(scale q k^T) v in
/// float32, rounded once. q [T, heads, D]; caches [pages, page size, KV heads, D] of the same dtype, heads a multiple
/// of the KV heads; block tables [B, most pages], query and KV lengths from the context. The rows of a sequence are
/// consecutive; its row r is at position KV length - query length + r and sees the keys up to and including its own,
/// which store_kv has written before. Rows of a sequence with KV length 0 (padding) give zeros. Table entries past a
/// sequence's length are not read; the others must name pages of the caches.
///
/// With scales the caches are int8, and a scale is applied once: to the sum of products of a query with a key, and to
/// the weight of a value before it multiplies that value (not in the sum of weights).
Tensor paged_attention(ForwardContext& context, const Tensor& q, const Tensor& k_cache, const Tensor& v_cache,
                       double scale, const KvScales& scales = {},
                       std::source_location where = std::source_location::current());

/// What a kernel's plan() checks of the values of the host lists, which the shape function does not see when a graph is
/// bound, updated or run node by node: a query and a KV length for each block table, which holds the keys.
/// kInvalidArgument.
void check_attention_lists(const OpCall& call);

void register_attention(Registry& registry);

}  // namespace reprise::ops
