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

void register_kv_cache(Registry& registry);

}  // namespace reprise::ops
