#pragma once

#include <cstdint>

namespace reprise::engine {

/// Calls of operator new in this program so far; see allocation_counter.cc.
int64_t allocations();

}  // namespace reprise::engine
