#include "model/observe_inputs.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/product_observer.h"

namespace reprise::model {

std::map<std::string, load::ActivationRange> observe_linear_inputs(const Model& model, const ops::Registry& registry,
                                                                   device::Device& device,
                                                                   const std::vector<std::vector<int32_t>>& texts,
                                                                   const std::function<void(size_t done)>& progress) {
  std::map<std::string, load::ActivationRange> ranges;
  const auto observe = [&](const Product& product) {
    // Experts have a scale for each token.
    if (product.op != "linear") return;
    load::ActivationRange& range = ranges[product.layer];
    for (const float value : values_on_host(device, product.inputs[0])) {
      if (!std::isfinite(value)) {
        throw Error(ErrorCode::kCorruptData, "the input of {} holds {}", product.layer, value);
      }
      range.least = std::min(range.least, value);
      range.largest = std::max(range.largest, value);
    }
  };
  observe_products(model, registry, device, texts, observe, progress);
  return ranges;
}

}  // namespace reprise::model
