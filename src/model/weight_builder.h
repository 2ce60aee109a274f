#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "load/check_tensors.h"
#include "load/checkpoint.h"
#include "load/model_config.h"
#include "model/expert_placement.h"
#include "model/load_report.h"
#include "model/packed_weights.h"
#include "model/weight_products.h"
#include "ops/eager_dispatcher.h"
#include "ops/forward_context.h"
#include "ops/linear.h"
#include "ops/registry.h"

namespace reprise::model {

/// Brings weights from a checkpoint onto a device in the form that the model's operators want: converted to the compute
/// dtype, products' weights packed. Or, for planning and drawing, it yields tensors of the right shapes and formats
/// with no memory behind them.
class WeightBuilder {
 public:
  /// kPlan: a checkpoint only says what graphs depend on beside shapes: dtypes, and which scales are equal. Without one
  /// the usual is taken for granted: tables in the compute dtype, one scale for layers of one input.
  enum class Use { kLoad, kPlan };

  /// Told the name of each weight before it is prepared, and how many bytes of how many are done.
  using Progress = std::function<void(const std::string& name, size_t done_bytes, size_t total_bytes)>;

  /// Checks the checkpoint (which may be null for a plan) against the config first, and throws for everything that is
  /// wrong with it in one message before anything is allocated. The config must outlive the builder.
  WeightBuilder(const load::Checkpoint* checkpoint, Use use, const load::ModelConfig& config,
                const ops::Registry& registry, device::Device& device, DType dtype, Progress progress = {});
  WeightBuilder(const WeightBuilder&) = delete;
  WeightBuilder& operator=(const WeightBuilder&) = delete;

  /// Takes packed weights from this file where it fits, and writes it where it does not. Before any weight is made.
  void use_pack_cache(const std::filesystem::path& file) { packed_.use_cache(file, dtype_); }

  /// A weight that is read row by row (an embedding): plain, float32 or bfloat16 as stored.
  Tensor table(const std::string& name);
  /// A weight of norms and biases: float32.
  Tensor vector(const std::string& name);
  /// A norm's weight `prefix`.weight, and its bias where the model has one (absent elsewhere). Weights without a bias
  /// have the compute dtype where the device wants that and the stored numbers allow it.
  std::pair<Tensor, Tensor> norm(const std::string& prefix);
  /// `prefix`.weight in the compute dtype, packed; `prefix`.bias where `bias` is true. Or what the layer's quantisation
  /// stores instead, the weight packed as well.
  ops::LinearWeights linear(const std::string& prefix, bool bias, ops::LinearWeights::Parallel parallel);
  /// The same for layers that have one input: their weights lie one after the other in one storage where the device's
  /// format allows it, so that graphs can make one product of them. Equal scales of their input are one tensor.
  std::vector<ops::LinearWeights> linears(std::span<const std::string> prefixes, bool bias,
                                          ops::LinearWeights::Parallel parallel);
  /// The experts of a layer, whose weights are called `prefix`0.gate_proj.weight and so on.
  struct ExpertNames {
    std::string prefix;           ///< "model.layers.0.mlp.experts."
    int64_t active = 0;           ///< experts of one token
    ExpertPlacement places = {};  ///< the expert at each place; each occurs
    bool movable = false;         ///< whether experts may change places later
  };
  /// The weights of all places as one stack [places, N, K], packed, under the name `prefix``label`.weight, in memory
  /// of its own if they are movable. Several projections of one input become one weight: their rows follow each other.
  /// Experts may be quantised with a scale for each token.
  ops::LinearWeights experts(const ExpertNames& names, const std::string& label,
                             std::span<const std::string> projections, ops::LinearWeights::Parallel parallel);
  /// `prefix`.weight, which chooses experts: float, whatever the quantisation says of linear layers.
  ops::LinearWeights router(const std::string& prefix);
  /// The output head: lm_head, or the embedding where Hugging Face's loader takes that.
  ops::LinearWeights head();
  /// A float32 tensor that the model computes itself.
  Tensor constant(const std::string& label, std::vector<float> values, const Shape& shape);

  /// int64 counters that start at 0.
  Tensor counters(const std::string& label, const Shape& shape);
  /// int32 numbers that may change later.
  Tensor indices(const std::string& label, const std::vector<int32_t>& values, const Shape& shape);

  /// To be called when everything is built, before take_names(): writes the pack cache, gives back the pages of files
  /// and tells what loading took.
  LoadReport finish();
  /// Labels of everything built so far, for graphs.
  std::vector<std::pair<std::string, Tensor>> take_names() { return std::move(names_); }
  device::Device& device() const { return device_; }
  /// Bytes of the products' weights that one token reads, in the form that the device reads.
  size_t linear_bytes() const { return linear_bytes_; }
  /// Multiply-adds of one token with what was built so far.
  const WeightProducts& products() const { return products_; }

 private:
  Shape shape_of(const std::string& name) const;
  /// The stored tensor on the device, converted to `dtype` if it is not that already.
  Tensor bring(const std::string& name, DType dtype);
  /// The weight of a product, packed.
  Tensor pack(const std::string& label, const std::string& name, DType dtype);
  PackedWeights::Item item_of(std::string name) const;
  /// Counts the products of a token with so many weights.
  void count_products(DType dtype, int64_t weights) {
    (dtype == DType::kI8 ? products_.int8 : products_.floating) += weights;
  }
  /// Tells the progress, and looks at the memory now and then.
  void take(const load::StoredTensor& stored);
  void watch_memory();
  /// The scales of the experts' quantised weights, [places, N].
  Tensor expert_scales(const ExpertNames& names, const std::string& label, std::span<const std::string> projections);
  /// Everything of a layer but its weight, of which only the form is there.
  ops::LinearWeights linear_without_weight(const std::string& prefix, bool bias, ops::LinearWeights::Parallel parallel);
  DType weight_dtype(const std::string& prefix) const;
  /// The scales of an int8 weight.
  void add_scales(ops::LinearWeights& weights, const std::string& prefix, load::LinearScheme scheme, bool bias);
  /// Whether the device wants vectors in the dtype of rows, and rows are narrower than float32.
  bool wants_narrow_vectors() const;
  /// A scale or an offset as float32 [elements].
  Tensor scale(const std::string& name);
  /// What quantises the input of a layer: the scale and the offset as stored, or for each of `columns` columns in the
  /// compute dtype where the device wants that and nothing is lost.
  void add_input_scales(ops::LinearWeights& weights, const std::string& prefix, int64_t columns);
  Tensor integers(const std::string& name);
  /// Whether two stored tensors hold the same numbers.
  bool same_values(const std::string& a, const std::string& b) const;
  /// Lets layers of one input share the scale and the offset that quantise it, where they are equal.
  void share_input_scales(std::span<const std::string> prefixes, std::span<ops::LinearWeights> weights);
  /// A copy of the values on the device, in memory that the device owns.
  Tensor owned(const std::string& label, const TensorMeta& meta, std::span<const std::byte> values);
  Tensor named(const std::string& label, Tensor tensor);
  void rename(const std::string& label, const Tensor& tensor);

  const load::Checkpoint* described_;   ///< what files say; may be null for a plan
  const load::Checkpoint* checkpoint_;  ///< what weights are made of; null for a plan
  const load::ModelConfig& config_;
  std::map<std::string, Shape> shapes_;
  const ops::Registry& registry_;
  device::Device& device_;
  ops::EagerDispatcher dispatcher_;
  ops::ForwardContext context_;
  DType dtype_;
  Progress progress_;
  PackedWeights packed_;
  LoadReport report_;
  size_t watched_bytes_ = 0;  ///< of done_bytes_, when the memory was looked at last
  size_t done_bytes_ = 0;
  size_t total_bytes_ = 0;
  size_t linear_bytes_ = 0;
  WeightProducts products_;
  std::vector<std::pair<std::string, Tensor>> names_;
};

}  // namespace reprise::model
