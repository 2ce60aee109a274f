#pragma once

#include "ops/registry.h"

namespace reprise::kernels::cpu {

/// A copy of a registry whose CPU kernels compute nothing: plans, launches, tile counts and arguments stay, each launch
/// runs an empty function. What remains is the cost of the host. For measuring; results are undefined.
ops::Registry with_empty_cpu_kernels(const ops::Registry& registry);

}  // namespace reprise::kernels::cpu
