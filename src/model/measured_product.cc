#include "model/measured_product.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <span>

#include "ops/int8_grouped_linear.h"
#include "ops/int8_linear.h"
#include "ops/linear_merge.h"
#include "ops/moe.h"
#include "ops/moe_experts.h"
#include "ops/pack_weight.h"

namespace reprise::model {
namespace {

/// A large weight is measured in parts of about so many bytes, which are in no cache but come from memory in turn.
constexpr size_t kTunedPartBytes = size_t{8} << 20;

Tensor make_filled(device::Device& device, DType dtype, const Shape& shape) {
  const TensorMeta meta(dtype, shape);
  const Tensor tensor(meta, device.allocate(meta.contiguous_bytes()));
  // As bfloat16 and float32 about 0.01, as int8 60.
  device.fill(tensor.data(), 0x3C, meta.contiguous_bytes());
  return tensor;
}

Tensor make_integers(device::Device& device, const std::vector<int32_t>& values, const Shape& shape) {
  const Tensor tensor = make_filled(device, DType::kI32, shape);
  device.copy(tensor.data(), values.data(), values.size() * sizeof(int32_t), device::CopyKind::kHostToDevice);
  return tensor;
}

/// Rows [first, first + count) of a layer's weights, `offset` bytes behind their beginning.
ops::LinearWeights rows_of(const ops::LinearWeights& all, int64_t first, int64_t count, size_t offset) {
  ops::LinearWeights part;
  const TensorMeta& meta = all.weight.meta();
  part.weight = all.weight.with_meta(TensorMeta(meta.dtype, {count, all.weight.size(1)}, meta.format), offset);
  for (Tensor ops::LinearWeights::* vector :
       {&ops::LinearWeights::bias, &ops::LinearWeights::scale, &ops::LinearWeights::quant_bias}) {
    const Tensor& values = all.*vector;
    if (!values.defined()) continue;
    part.*vector =
        values.with_meta(TensorMeta(values.dtype(), {count}), static_cast<size_t>(first) * size_of(values.dtype()));
  }
  return part;
}

class MeasuredLinear final : public MeasuredProduct {
 public:
  MeasuredLinear(ops::ProductShape shape, DType activations, device::Device& device)
      : MeasuredProduct(shape), activations_(activations), device_(device) {}

  void add(ops::LinearWeights weights) { weights_.push_back(std::move(weights)); }

  void set_rows(ops::RowsClass rows) override {
    const int64_t count = ops::typical_rows(rows);
    x_ = make_filled(device_, shape_.x, {count, shape_.inputs});
    row_scales_ = make_filled(device_, DType::kF32, {count});
  }

  void call(ops::ForwardContext& context) override {
    const ops::LinearWeights& weights = weights_[next_++ % weights_.size()];
    if (weights.weight.dtype() == DType::kI8) {
      const ops::Int8LinearTerms terms{weights.scale, row_scales_, weights.quant_bias, weights.bias};
      ops::int8_linear(context, x_, weights.weight, terms, activations_);
    } else {
      ops::linear(context, x_, weights);
    }
  }

  /// Every product, because parts of a weight have a shape of their own.
  void force(ops::ProductTuning& tuning, size_t way) const override { tuning.force(way); }
  size_t turns() const override { return weights_.size(); }

 private:
  DType activations_;
  device::Device& device_;
  std::vector<ops::LinearWeights> weights_;  ///< of all layers, or parts of them
  Tensor x_, row_scales_;
  size_t next_ = 0;
};

/// One of the two stacks of layers with experts. Float gate and up are measured in the operator that compiled steps
/// have for the whole layer, because it walks over the two side by side; everything else is the same walk in a product
/// of its own.
class MeasuredExperts final : public MeasuredProduct {
 public:
  enum class Stack { kGateUp, kDown };

  MeasuredExperts(ops::ProductShape shape, Stack stack, int64_t top_k, DType activations, device::Device& device)
      : MeasuredProduct(shape), stack_(stack), top_k_(top_k), activations_(activations), device_(device) {}

  void add(const ExpertProducts& layer) { layers_.push_back(layer); }

  void set_rows(ops::RowsClass rows) override {
    tokens_ = ops::typical_rows(rows);
    const int64_t count = tokens_ * top_k_;
    x_ = make_filled(device_, shape_.x, {is_whole_layer() ? tokens_ : count, shape_.inputs});
    row_scales_ = make_filled(device_, DType::kF32, {count});
    offsets_.clear();
    choices_.clear();
    for (const std::vector<int32_t>& experts : choices()) {
      if (is_whole_layer()) {
        const Tensor weights = make_filled(device_, DType::kF32, {tokens_, top_k_});
        choices_.push_back({weights, make_integers(device_, experts, {tokens_, top_k_})});
      } else {
        offsets_.push_back(make_integers(device_, offsets_of(experts), {shape_.experts + 1}));
      }
    }
  }

  void call(ops::ForwardContext& context) override {
    const ExpertProducts& layer = layers_[next_ % layers_.size()];
    const size_t turn = next_++ / layers_.size();
    if (is_whole_layer()) {
      ops::moe_experts(context, x_, choices_[turn % choices_.size()], layer.gate_up.weight, layer.down.weight);
      return;
    }
    const ops::LinearWeights& weights = stack_ == Stack::kGateUp ? layer.gate_up : layer.down;
    const Tensor& offsets = offsets_[turn % offsets_.size()];
    if (weights.weight.dtype() == DType::kI8) {
      ops::int8_grouped_linear(context, x_, weights.weight, offsets, weights.scale, row_scales_, activations_);
    } else {
      ops::grouped_linear(context, x_, weights, offsets);
    }
  }

  void force(ops::ProductTuning& tuning, size_t way) const override { tuning.force(way, shape_); }
  size_t turns() const override { return layers_.size() * std::max(choices_.size(), offsets_.size()); }

 private:
  bool is_whole_layer() const { return stack_ == Stack::kGateUp && shape_.weight != DType::kI8; }

  /// What tokens choose from, each of the experts once: as many at a time as a token has, so that a single one goes to
  /// each of them and several are dealt among them at random.
  std::vector<std::vector<int32_t>> choices() const {
    std::minstd_rand random(1);
    std::vector<int32_t> order(static_cast<size_t>(shape_.experts));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const auto some = static_cast<size_t>(top_k_);
    std::vector<std::vector<int32_t>> result;
    for (size_t first = 0; first + some <= order.size(); first += some) {
      std::vector<int32_t> experts(order.begin() + static_cast<ptrdiff_t>(first),
                                   order.begin() + static_cast<ptrdiff_t>(first + some));
      while (tokens_ > 1 && experts.size() < static_cast<size_t>(tokens_ * top_k_)) {
        experts.push_back(order[first + random() % some]);
      }
      result.push_back(std::move(experts));
    }
    return result;
  }

  std::vector<int32_t> offsets_of(const std::vector<int32_t>& experts) const {
    std::vector<int32_t> offsets(static_cast<size_t>(shape_.experts) + 1);
    for (const int32_t expert : experts) ++offsets[static_cast<size_t>(expert) + 1];
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    return offsets;
  }

  Stack stack_;
  int64_t top_k_;
  DType activations_;
  device::Device& device_;
  std::vector<ExpertProducts> layers_;
  int64_t tokens_ = 1;
  Tensor x_, row_scales_;
  std::vector<Tensor> offsets_;             ///< [experts + 1] of each turn
  std::vector<ops::ExpertChoice> choices_;  ///< the same where the whole layer is called
  size_t next_ = 0;
};

/// Finds the products of a model.
class Collector {
 public:
  Collector(const Model& model, const ops::Registry& registry, device::Device& device)
      : model_(model), registry_(registry), device_(device) {}

  std::vector<std::unique_ptr<MeasuredProduct>> run() {
    for (const std::vector<ops::LinearWeights>& layers : model_.products()) {
      const auto joined = ops::join_linear_weights(registry_, device_.name(), layers);
      if (joined) add(*joined);
      for (size_t i = 0; !joined && i < layers.size(); ++i) add(layers[i]);
    }
    for (const ExpertProducts& layer : model_.expert_products()) {
      add(layer, MeasuredExperts::Stack::kGateUp);
      add(layer, MeasuredExperts::Stack::kDown);
    }
    std::vector<std::unique_ptr<MeasuredProduct>> all;
    for (auto& linear : linears_) all.push_back(std::move(linear));
    for (auto& experts : experts_) all.push_back(std::move(experts));
    return all;
  }

 private:
  static bool is_ready(const Tensor& weight) {
    return !weight.format().is_plain() && weight.data() != nullptr && weight.shape().elements() > 0;
  }
  DType type_of_x(const Tensor& weight) const {
    return weight.dtype() == DType::kI8 ? DType::kI8 : model_.info().dtype;
  }

  void add(const ops::LinearWeights& weights) {
    const Tensor& weight = weights.weight;
    if (!is_ready(weight)) return;
    const ops::ProductShape shape{type_of_x(weight), weight.dtype(), weight.size(1), weight.size(0)};
    auto place = std::find_if(linears_.begin(), linears_.end(), [&](const auto& p) { return p->shape() == shape; });
    if (place == linears_.end()) {
      place = linears_.insert(place, std::make_unique<MeasuredLinear>(shape, model_.info().dtype, device_));
    }
    const int64_t part = rows_of_part(weight);
    const size_t bytes = bytes_of(weight, part);
    for (int64_t first = 0, i = 0; first < weight.size(0); first += part, ++i) {
      // The last part is shorter: it would make turns uneven.
      if (i > 0 && first + part > weight.size(0)) break;
      (*place)->add(rows_of(weights, first, std::min(part, weight.size(0) - first), static_cast<size_t>(i) * bytes));
    }
  }

  void add(const ExpertProducts& layer, MeasuredExperts::Stack stack) {
    const Tensor& weight = stack == MeasuredExperts::Stack::kGateUp ? layer.gate_up.weight : layer.down.weight;
    if (!is_ready(weight)) return;
    const ops::ProductShape shape{type_of_x(weight), weight.dtype(),       weight.size(2),
                                  weight.size(1),    ops::RowsClass::kOne, weight.size(0)};
    auto place = std::find_if(experts_.begin(), experts_.end(), [&](const auto& p) { return p->shape() == shape; });
    if (place == experts_.end()) {
      place = experts_.insert(
          place, std::make_unique<MeasuredExperts>(shape, stack, layer.top_k, model_.info().dtype, device_));
    }
    (*place)->add(layer);
  }

  size_t bytes_of(const Tensor& weight, int64_t rows) const {
    return ops::packed_layout(registry_, device_.name(), TensorMeta(weight.dtype(), {rows, weight.size(1)})).bytes;
  }

  int64_t rows_of_part(const Tensor& weight) const {
    constexpr int64_t kGranule = 256;
    const size_t granule = bytes_of(weight, kGranule);
    const int64_t part = kGranule * static_cast<int64_t>(std::max<size_t>(kTunedPartBytes / granule, 1));
    const TensorMeta plain(weight.dtype(), weight.shape());
    if (part >= weight.size(0) || !ops::fills_packed_blocks(registry_, device_.name(), plain, part)) {
      return weight.size(0);
    }
    return part;
  }

  const Model& model_;
  const ops::Registry& registry_;
  device::Device& device_;
  std::vector<std::unique_ptr<MeasuredLinear>> linears_;
  std::vector<std::unique_ptr<MeasuredExperts>> experts_;
};

}  // namespace

std::vector<std::unique_ptr<MeasuredProduct>> measured_products(const Model& model, const ops::Registry& registry,
                                                                device::Device& device) {
  return Collector(model, registry, device).run();
}

}  // namespace reprise::model
