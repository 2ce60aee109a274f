#pragma once

#include "compile/replacement.h"
#include "ops/registry.h"

namespace reprise::compile {

// The catalogue's fusions, in the order in which they run; a file each. All are exact: the fused operator rounds where
// the plain ones store. Only fold_reciprocal is not, and says so.

/// gather_rows of a sum or of a product: the rows first, the arithmetic on fewer of them.
ReplacementSet gather_early(const ops::Registry& registry);
/// embedding, then rms_norm.
ReplacementSet fuse_embedding_rms_norm(const ops::Registry& registry);
/// embedding_rms_norm, or embedding and rms_norm_bias, then quantize or dynamic_quantize (with or without smooth
/// scales).
ReplacementSet fuse_embedding_rms_norm_quantize(const ops::Registry& registry);
/// add, then rms_norm (or rms_norm_bias) of the sum, which others may use as well.
ReplacementSet fuse_add_rms_norm(const ops::Registry& registry);
/// add_rms_norm or add_rms_norm_bias, then quantize (with or without offset).
ReplacementSet fuse_add_rms_norm_quantize(const ops::Registry& registry);
/// add_rms_norm or add_rms_norm_bias, then dynamic_quantize (with or without smooth scales; also of the flattened
/// rows).
ReplacementSet fuse_add_rms_norm_dynamic_quantize(const ops::Registry& registry);
/// add_rms_norm, then a cast to float32 beside the norm itself.
ReplacementSet fuse_add_rms_norm_cast(const ops::Registry& registry);
/// 1 / (1 / x) becomes x: inexact, as 1 / x rounds.
ReplacementSet fold_reciprocal(const ops::Registry& registry);
/// Queries, keys and values cut from one product by heads; norm and rotation of the first two; and the write of keys
/// and values to their cache where nobody else needs them.
ReplacementSet fuse_split_qkv_rms_norm_rope(const ops::Registry& registry);
/// From the routing of a choice of experts to the sum of what they make, with float weights or with int8 ones.
ReplacementSet fuse_moe_experts(const ops::Registry& registry);
/// mul(silu(gate), up).
ReplacementSet fuse_swiglu(const ops::Registry& registry);
/// swiglu, then quantize or dynamic_quantize.
ReplacementSet fuse_swiglu_quantize(const ops::Registry& registry);
/// batch_matmul with its first two axes exchanged behind it, and perhaps in front of it.
ReplacementSet fuse_transpose_batch_matmul(const ops::Registry& registry);

}  // namespace reprise::compile
