#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/device.h"
#include "load/quantize_checkpoint.h"
#include "model/model.h"
#include "ops/registry.h"

namespace reprise::model {

/// Runs texts (token ids, none longer than the model's positions) through a float model, each from its beginning, and
/// tells the range that the input of each linear layer has taken: by the layer's name. `progress` is told how many
/// texts are done. Throws kInvalidArgument for an id out of range or a text that is too long, and kCorruptData, naming
/// the layer, for an input that is no number.
std::map<std::string, load::ActivationRange> observe_linear_inputs(
    const Model& model, const ops::Registry& registry, device::Device& device,
    const std::vector<std::vector<int32_t>>& texts, const std::function<void(size_t done)>& progress = {});

}  // namespace reprise::model
