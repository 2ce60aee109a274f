#pragma once

#include "kernels/ascend/register_common.h"

// The parts of register_ascend_kernels(), by families of operators.

namespace reprise::kernels::ascend {

void register_elementwise(ops::Registry& registry, const Resources& resources);
void register_moves(ops::Registry& registry, const Resources& resources);
void register_rows(ops::Registry& registry, const Resources& resources);
void register_norms(ops::Registry& registry, const Resources& resources);
void register_quantize(ops::Registry& registry, const Resources& resources);
void register_linear(ops::Registry& registry, const Resources& resources);
void register_int8_linear(ops::Registry& registry, const Resources& resources);
void register_kv_cache(ops::Registry& registry, const Resources& resources);
void register_attention(ops::Registry& registry, const Resources& resources);
void register_convolution(ops::Registry& registry, const Resources& resources);
void register_moe(ops::Registry& registry, const Resources& resources);
void register_experts(ops::Registry& registry, const Resources& resources);
void register_places(ops::Registry& registry, const Resources& resources);

}  // namespace reprise::kernels::ascend
