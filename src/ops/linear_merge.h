#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "ops/linear.h"

namespace reprise::ops {

// Several linear layers of one input (query, key and value; gate and up) as one: their weights lie one after the other
// in one storage, of which the separate weights are views. Each output of a product is a sum of its own, so the columns
// of the merged product are bit by bit those of the separate ones.

/// Why weights cannot be merged, "" if they can: they must agree in dtype, format, number of columns, being cut for
/// several devices, having a bias, and how they and their input are quantised; and a packed weight, unless it is the
/// last, must fill its blocks of rows (of 16 on the CPU), because no rows may lie between it and the next one. The
/// device's pack_linear_weight tells the sizes of packed weights.
std::string merge_hazard(const Registry& registry, std::string_view device, std::span<const LinearWeights> weights);

struct MergedLinearWeights {
  LinearWeights merged;
  std::vector<LinearWeights> parts;  ///< views of `merged`, as many as there were weights
};
/// Copies weights, and biases and scales where they are, into one storage each, unless they lie one after the other in
/// one already. For loading: blocks, and the work that makes the weights must be done. Weights without memory give
/// such. Throws kInvalidArgument with the hazard.
MergedLinearWeights merge_linear_weights(const Registry& registry, device::Device& device,
                                         std::span<const LinearWeights> weights);

/// The merged weights of parts that lie one after the other, as merge_linear_weights leaves them: nothing is copied.
/// Nothing when they lie otherwise or cannot be merged; `reason`, if given, says why.
std::optional<LinearWeights> join_linear_weights(const Registry& registry, std::string_view device,
                                                 std::span<const LinearWeights> weights, std::string* reason = nullptr);

}  // namespace reprise::ops
