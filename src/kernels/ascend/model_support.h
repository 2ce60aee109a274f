#pragma once

#include <string>

#include "ops/registry.h"

namespace reprise::kernels::ascend {

/// Why models cannot run on the device whose kernels are in the registry: an operator that each of them needs is
/// missing in the installed libraries, or refused by the chip. Empty when they can. Nothing is launched: the operators'
/// first phases are asked, for small tensors of bfloat16.
std::string why_no_models(const ops::Registry& registry);

}  // namespace reprise::kernels::ascend
