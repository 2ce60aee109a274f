#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "model/model.h"
#include "ops/dispatcher.h"
#include "ops/registry.h"

namespace reprise::model {

/// A product that a model has made, and is done with.
struct Product {
  std::string_view op;               ///< "linear", or "grouped_linear" of a stack of experts
  std::string layer;                 ///< the name of its weight without ".weight"
  std::span<const Tensor> inputs{};  ///< of the operator
  Tensor output{};
};

/// Runs texts (token ids, none longer than the model's positions) through a float model, each from its beginning, and
/// shows every product with a named weight. `progress` is told how many texts are done. Throws kInvalidArgument for an
/// id out of range or a text that is too long.
void observe_products(const Model& model, const ops::Registry& registry, device::Device& device,
                      const std::vector<std::vector<int32_t>>& texts,
                      const std::function<void(const Product& product)>& observe,
                      const std::function<void(size_t done)>& progress = {});

/// The values of a float tensor without gaps, on the host.
std::vector<float> values_on_host(device::Device& device, const Tensor& tensor);

}  // namespace reprise::model
