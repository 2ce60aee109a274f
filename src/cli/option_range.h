#pragma once

#include <cstdint>
#include <limits>

namespace reprise::cli {

/// kInvalidArgument that names the option unless its value lies between the two, both inclusive.
void require_range(const char* option, int64_t value, int64_t least,
                   int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace reprise::cli
