#include "ops/norm.h"
#include "ops/registry.h"

namespace reprise::ops {

Registry make_catalogue() {
  Registry registry;
  register_norm(registry);
  return registry;
}

}  // namespace reprise::ops
