#pragma once

#include <cstdint>

namespace reprise::engine {

/// False where operator new cannot be replaced.
bool counts_allocations();
/// Calls of operator new in this program so far; see allocation_counter.cc.
int64_t allocations();

}  // namespace reprise::engine
