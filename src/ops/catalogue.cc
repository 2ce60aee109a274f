#include "ops/attention.h"
#include "ops/convolution.h"
#include "ops/copies.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/kv_cache.h"
#include "ops/linear.h"
#include "ops/measure.h"
#include "ops/norm.h"
#include "ops/registry.h"
#include "ops/rope.h"
#include "ops/views.h"

namespace reprise::ops {

Registry make_catalogue() {
  Registry registry;
  register_views(registry);
  register_copies(registry);
  register_elementwise(registry);
  register_norm(registry);
  register_linear(registry);
  register_embedding(registry);
  register_rope(registry);
  register_kv_cache(registry);
  register_attention(registry);
  register_convolution(registry);
  register_measure(registry);
  return registry;
}

}  // namespace reprise::ops
