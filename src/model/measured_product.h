#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/model.h"
#include "ops/forward_context.h"
#include "ops/product_tuning.h"
#include "ops/registry.h"

namespace reprise::model {

/// The products of one shape in a model, called as its steps call them: with the weights of all layers in turn, so that
/// these come from memory.
class MeasuredProduct {
 public:
  virtual ~MeasuredProduct() = default;

  /// Of any rows.
  const ops::ProductShape& shape() const { return shape_; }
  /// The rows of the following calls; makes what they read.
  virtual void set_rows(ops::RowsClass rows) = 0;
  /// Queues the next call.
  virtual void call(ops::ForwardContext& context) = 0;
  /// Lets the following calls go a way; until the tuning's force() is ended.
  virtual void force(ops::ProductTuning& tuning, size_t way) const = 0;
  /// After how many calls all weights have had their turn.
  virtual size_t turns() const = 0;

 protected:
  explicit MeasuredProduct(ops::ProductShape shape) : shape_(shape) {}
  ops::ProductShape shape_;
};

/// All shapes of products in a model that have ways to choose from, those of experts included. Nothing is called. What
/// the arguments refer to must outlive them.
std::vector<std::unique_ptr<MeasuredProduct>> measured_products(const Model& model, const ops::Registry& registry,
                                                                device::Device& device);

}  // namespace reprise::model
