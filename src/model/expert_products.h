#pragma once

#include <cstdint>

#include "ops/linear.h"

namespace reprise::model {

/// What a layer with experts multiplies grouped rows with.
struct ExpertProducts {
  ops::LinearWeights gate_up;  ///< stacks [places, 2 * intermediate, hidden size]
  ops::LinearWeights down;     ///< [places, hidden size, intermediate]
  int64_t top_k = 0;           ///< how many experts a token goes through
};

}  // namespace reprise::model
