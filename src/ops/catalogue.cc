#include "ops/attention.h"
#include "ops/batch_matmul.h"
#include "ops/convolution.h"
#include "ops/copies.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/fused_norm.h"
#include "ops/int8_grouped_linear.h"
#include "ops/int8_linear.h"
#include "ops/kv_cache.h"
#include "ops/linear.h"
#include "ops/measure.h"
#include "ops/moe.h"
#include "ops/moe_experts.h"
#include "ops/moe_place.h"
#include "ops/norm.h"
#include "ops/quantize.h"
#include "ops/registry.h"
#include "ops/rope.h"
#include "ops/scatter.h"
#include "ops/scopes.h"
#include "ops/split_qkv.h"
#include "ops/swiglu.h"
#include "ops/views.h"

namespace reprise::ops {

Registry make_catalogue() {
  Registry registry;
  register_views(registry);
  register_copies(registry);
  register_elementwise(registry);
  register_norm(registry);
  register_int8_linear(registry);
  register_linear(registry);
  register_embedding(registry);
  register_rope(registry);
  register_kv_cache(registry);
  register_attention(registry);
  register_convolution(registry);
  register_measure(registry);
  register_scatter(registry);
  register_scopes(registry);
  register_batch_matmul(registry);
  register_quantize(registry);
  register_fused_norm(registry);
  register_swiglu(registry);
  register_split_qkv(registry);
  register_moe(registry);
  register_moe_experts(registry);
  register_moe_place(registry);
  register_int8_grouped_linear(registry);
  return registry;
}

}  // namespace reprise::ops
