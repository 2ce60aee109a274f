#pragma once

#include <cstdint>

namespace reprise::model {

/// Multiply-adds of one token with weights.
struct WeightProducts {
  int64_t floating = 0;  ///< of values in the dtype of activations
  int64_t int8 = 0;
};

}  // namespace reprise::model
