#pragma once

#include <string>
#include <vector>

#include "device/device.h"
#include "model/model.h"
#include "model/product_tuner.h"
#include "ops/registry.h"

namespace reprise::cli {

/// What --autotune has chosen.
struct AutotuneReport {
  std::vector<model::TunedProduct> products = {};
  double seconds = 0;
  std::string file = {};  ///< where the choices are remembered; "" for nowhere

  /// "20 products, 18 of them by default; linear ...: panels of 8 blocks (5.1 % faster)".
  std::string text() const;
  /// The same as a JSON object.
  std::string json() const;
};

/// Chooses how the products of a model work, by measurement or as `file` ("": the usual one) remembers from an earlier
/// time on this machine, and says in one line what of both it was. A file that cannot be read or written costs a
/// warning.
AutotuneReport autotune(const model::Model& model, const ops::Registry& registry, device::Device& device,
                        const std::string& file);

}  // namespace reprise::cli
