#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// Scales of int8 caches, float32 [pages, page size, KV heads]; absent where the caches hold the rows' own dtype.
struct KvScales {
  Tensor k{};
  Tensor v{};
};

/// Writes the keys and values of each token to its slot of the caches, which are changed in place. k and v [T, KV
/// heads, D]; caches [pages, page size, KV heads, D] of the same dtype, slots from the context: slot s is row s % page
/// size of page s / page size. A slot outside of the caches is skipped.
///
/// With scales the caches are int8: the row of each token and head is quantised as dynamic_quantize() does, and its
/// scale is written beside it. A row of zeros stays one; of a row with an infinity or a NaN the scale is one.
void store_kv(ForwardContext& context, const Tensor& k, const Tensor& v, const Tensor& k_cache, const Tensor& v_cache,
              const KvScales& scales = {}, std::source_location where = std::source_location::current());

/// What shape functions ask of the caches (arguments `first` and the next one) and their scales (the two behind them)
/// that take rows of shape [T, KV heads, D] and of the first argument's dtype.
void require_caches(const OpCall& call, size_t first, const Shape& rows);
/// That arguments `first` and the next one are both absent or the scales of caches of this shape.
void require_kv_scales(const OpCall& call, size_t first, const Shape& cache);
/// int8 where it is quantised, else the first argument's dtype.
void require_cache_dtype(const OpCall& call, size_t cache, bool quantized);
/// The naive formula for one of keys and values, on host-addressable memory. `scales` absent: not int8.
void reference_store_of(const Tensor& rows, const Tensor& slots, const Tensor& cache, const Tensor& scales);

void register_kv_cache(Registry& registry);

}  // namespace reprise::ops
