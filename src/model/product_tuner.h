#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/device.h"
#include "model/model.h"
#include "ops/product_tuning.h"
#include "ops/registry.h"

namespace reprise::model {

/// What a product goes by.
struct TunedProduct {
  ops::ProductShape shape;
  std::string way;
  bool is_default = true;
  bool measured = false;  ///< otherwise known before
  double gain = 0;        ///< the part of the default's time that the way saves; 0 where not measured
};

struct ProductTunerOptions {
  double seconds = 3;        ///< about so long at most; shapes that are not reached keep the default
  double least_gain = 0.03;  ///< a way is taken when it saves more than this part of the default's time
  std::function<void(size_t done, size_t total)> progress = {};
  /// Told of each shape whose known way is none of the device's: it is measured like an unknown one.
  std::function<void(const std::string& shape, const std::string& way)> on_unknown_way = {};
};

/// Finds for each product of a model, of each class of rows, the way that is fastest, and chooses it in the tuning of
/// the device's kernels: on the model's own weights, in turns with the default, twice. `known`: ways by
/// ProductShape::to_string() that are chosen without measuring. Shapes that the time did not suffice for are not in the
/// result. Empty for devices without anything to tune. Before anything is captured; the model's weights must be there.
std::vector<TunedProduct> tune_products(const Model& model, const ops::Registry& registry, device::Device& device,
                                        const std::map<std::string, std::string>& known,
                                        const ProductTunerOptions& options = {});

}  // namespace reprise::model
