#pragma once

#include <vector>

#include "compile/pass.h"
#include "compile/pass_options.h"
#include "ops/registry.h"

namespace reprise::compile {

/// The passes of the standard pipeline, in order; see PassManager::standard().
std::vector<Pass> standard_passes(const ops::Registry& registry, const PassOptions& options);

/// Those that a graph needs to run at all; see PassManager::lowering().
std::vector<Pass> lowering_passes(const ops::Registry& registry);

}  // namespace reprise::compile
