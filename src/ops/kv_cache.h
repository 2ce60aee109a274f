#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// Writes the keys and values of each token to its slot of the caches, which are changed in place. k and v [T, KV
/// heads, D]; caches [pages, page size, KV heads, D] of the same dtype, slots from the context: slot s is row s % page
/// size of page s / page size. A slot outside of the caches is skipped.
void store_kv(ForwardContext& context, const Tensor& k, const Tensor& v, const Tensor& k_cache, const Tensor& v_cache,
              std::source_location where = std::source_location::current());

/// What shape functions ask of a cache that takes rows of shape [T, KV heads, D] and of the first argument's dtype.
void require_cache(const OpCall& call, size_t cache, const Shape& rows);
/// The naive formula for one of keys and values, on host-addressable memory.
void reference_store_of(const Tensor& rows, const Tensor& slots, const Tensor& cache);

void register_kv_cache(Registry& registry);

}  // namespace reprise::ops
