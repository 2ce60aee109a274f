#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/device.h"
#include "model/model.h"
#include "ops/registry.h"

namespace reprise::model {

/// How far a quantised layer's outputs are from the float layer's for the same inputs, over all tokens.
struct OutputError {
  double cosine = 1;          ///< of the angle between both, as vectors
  double largest = 0;         ///< difference of an output
  double largest_output = 0;  ///< of the float layer, in magnitude: what to hold the difference against
};

/// Runs texts through the float model, and gives each input of a layer that `quantized` has in int8 to that as well.
/// By the layer's name; the experts of a layer are one entry for their gate and up projections together and one for
/// their down projections ("model.layers.0.mlp.experts.gate_up_proj"). Both models on `device`; errors as those of
/// observe_products().
std::map<std::string, OutputError> compare_outputs(const Model& exact, const Model& quantized,
                                                   const ops::Registry& registry, device::Device& device,
                                                   const std::vector<std::vector<int32_t>>& texts,
                                                   const std::function<void(size_t done)>& progress = {});

}  // namespace reprise::model
