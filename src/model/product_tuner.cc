#include "model/product_tuner.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/median.h"
#include "ops/eager_dispatcher.h"
#include "ops/int8_linear.h"
#include "ops/linear_merge.h"
#include "ops/pack_weight.h"

namespace reprise::model {
namespace {

using Clock = std::chrono::steady_clock;

/// A large weight is measured in parts of about so many bytes, which are in no cache but come from memory in turn.
constexpr size_t kTunedPartBytes = size_t{8} << 20;
/// A turn takes at least so long: long for the clock, and short against what else the machine does.
constexpr double kTurnSeconds = 1e-3;
constexpr int kScreeningRounds = 5;
constexpr int kLeastRounds = 3;
constexpr int kDuelRounds = 9;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The weights of one shape, or parts of them, in turn.
struct ProductWeights {
  ops::ProductShape shape;  ///< of any rows
  std::vector<ops::LinearWeights> weights = {};
  size_t next = 0;
};

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

class ProductTuner {
 public:
  ProductTuner(const Model& model, const ops::Registry& registry, device::Device& device,
               const ProductTunerOptions& options, ops::ProductTuning& tuning)
      : model_(model),
        registry_(registry),
        device_(device),
        options_(options),
        tuning_(tuning),
        dispatcher_(registry, device, device.default_stream()),
        context_(dispatcher_) {
    for (const std::vector<ops::LinearWeights>& layers : model.products()) {
      const auto joined = ops::join_linear_weights(registry, device.name(), layers);
      if (joined) add(*joined);
      for (size_t i = 0; !joined && i < layers.size(); ++i) add(layers[i]);
    }
  }

  std::vector<TunedProduct> run(const std::map<std::string, std::string>& known) {
    std::vector<TunedProduct> tuned;
    std::vector<std::pair<ProductWeights*, ops::ProductShape>> open;
    // The steps of few rows first: these wait for the memory, where the ways differ most.
    for (const ops::RowsClass rows : ops::kRowsClasses) {
      for (ProductWeights& product : products_) {
        ops::ProductShape shape = product.shape;
        shape.rows = rows;
        const auto place = known.find(shape.to_string());
        const std::optional<size_t> way = place == known.end() ? std::nullopt : tuning_.find(place->second);
        if (way) {
          tuning_.choose(shape, *way);
          tuned.push_back({shape, tuning_.ways()[*way], *way == tuning_.default_way(shape)});
        } else {
          if (place != known.end() && options_.on_unknown_way) options_.on_unknown_way(place->first, place->second);
          open.emplace_back(&product, shape);
        }
      }
    }
    const Clock::time_point start = Clock::now();
    for (size_t i = 0; i < open.size(); ++i) {
      const double left = options_.seconds - seconds_since(start);
      if (left <= 0) break;
      if (options_.progress) options_.progress(i, open.size());
      const auto result = measure(*open[i].first, open[i].second, left / static_cast<double>(open.size() - i));
      if (result) tuned.push_back(*result);
    }
    if (options_.progress && !open.empty()) options_.progress(open.size(), open.size());
    return tuned;
  }

 private:
  void add(const ops::LinearWeights& weights) {
    const Tensor& weight = weights.weight;
    if (weight.format().is_plain() || weight.data() == nullptr || weight.shape().elements() == 0) return;
    const DType x = weight.dtype() == DType::kI8 ? DType::kI8 : model_.info().dtype;
    const ops::ProductShape shape{x, weight.dtype(), weight.size(1), weight.size(0)};
    auto place =
        std::find_if(products_.begin(), products_.end(), [&](const ProductWeights& p) { return p.shape == shape; });
    if (place == products_.end()) place = products_.insert(place, {shape});
    const int64_t part = rows_of_part(weight);
    const size_t bytes = bytes_of(weight, part);
    for (int64_t first = 0, i = 0; first < weight.size(0); first += part, ++i) {
      place->weights.push_back(
          rows_of(weights, first, std::min(part, weight.size(0) - first), static_cast<size_t>(i) * bytes));
      // The last part is shorter: it would make turns uneven.
      if (i > 0 && first + part > weight.size(0)) place->weights.pop_back();
    }
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

  Tensor make(DType dtype, const Shape& shape) {
    const TensorMeta meta(dtype, shape);
    const Tensor tensor(meta, device_.allocate(meta.contiguous_bytes()));
    // As bfloat16 and float32 about 0.01, as int8 60.
    device_.fill(tensor.data(), 0x3C, meta.contiguous_bytes());
    return tensor;
  }

  void call(ProductWeights& product, const Tensor& x, const Tensor& row_scales) {
    const ops::LinearWeights& weights = product.weights[product.next++ % product.weights.size()];
    if (weights.weight.dtype() == DType::kI8) {
      const ops::Int8LinearTerms terms{weights.scale, row_scales, weights.quant_bias, weights.bias};
      ops::int8_linear(context_, x, weights.weight, terms, model_.info().dtype);
    } else {
      ops::linear(context_, x, weights);
    }
  }

  /// Seconds of a call, in a turn of `calls`.
  double turn(ProductWeights& product, const Tensor& x, const Tensor& row_scales, size_t way, int calls) {
    tuning_.force(way);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) call(product, x, row_scales);
    device_.default_stream().synchronize();
    return seconds_since(start) / calls;
  }

  /// For each way the median over the rounds of its time in relation to that of the first; nothing when the time was
  /// too short for that.
  std::optional<std::vector<double>> compare(ProductWeights& product, const Tensor& x, const Tensor& row_scales,
                                             int calls, const std::vector<size_t>& ways, int rounds, double seconds) {
    const Clock::time_point start = Clock::now();
    std::vector<std::vector<double>> ratios(ways.size());
    for (int round = 0; round < rounds; ++round) {
      if (seconds_since(start) > seconds) {
        if (round < kLeastRounds) return std::nullopt;
        break;
      }
      // Each round begins with another way.
      std::vector<double> times(ways.size());
      for (size_t i = 0; i < ways.size(); ++i) {
        const size_t at = (i + static_cast<size_t>(round)) % ways.size();
        times[at] = turn(product, x, row_scales, ways[at], calls);
      }
      for (size_t i = 0; i < ways.size(); ++i) ratios[i].push_back(times[i] / times[0]);
    }
    std::vector<double> medians;
    for (const std::vector<double>& of_way : ratios) medians.push_back(upper_median(of_way));
    return medians;
  }

  std::optional<TunedProduct> measure(ProductWeights& product, const ops::ProductShape& shape, double seconds) {
    struct EndOfForce {
      ops::ProductTuning& tuning;
      ~EndOfForce() { tuning.force(std::nullopt); }
    } const end{tuning_};
    const int64_t rows = ops::typical_rows(shape.rows);
    const Tensor x = make(shape.x, {rows, shape.inputs});
    const Tensor row_scales = make(DType::kF32, {rows});
    if (product.next == 0) {
      // Pages of mapped files come with the first call.
      for (size_t i = 0; i < product.weights.size(); ++i) call(product, x, row_scales);
      device_.default_stream().synchronize();
    }
    const size_t usual = tuning_.default_way(shape);
    const double once = std::min(turn(product, x, row_scales, usual, 1), turn(product, x, row_scales, usual, 1));
    const int calls = std::clamp(static_cast<int>(kTurnSeconds / std::max(once, 1e-7)), 1, 200);
    std::vector<size_t> ways(tuning_.ways().size());
    std::iota(ways.begin(), ways.end(), size_t{0});
    std::swap(ways[0], ways[usual]);
    const auto screened = compare(product, x, row_scales, calls, ways, kScreeningRounds, seconds);
    if (!screened) return std::nullopt;
    const auto best = static_cast<size_t>(std::min_element(screened->begin(), screened->end()) - screened->begin());
    size_t way = usual;
    double gain = 0;
    if (best != 0 && (*screened)[best] < 1 - options_.least_gain) {
      // The best of several is partly luck: it has to show it again.
      const auto again = compare(product, x, row_scales, calls, {usual, ways[best]}, kDuelRounds, seconds);
      if (!again) return std::nullopt;
      if ((*again)[1] < 1 - options_.least_gain) {
        way = ways[best];
        gain = 1 - (*again)[1];
      }
    }
    tuning_.choose(shape, way);
    return TunedProduct{shape, tuning_.ways()[way], way == usual, true, gain};
  }

  const Model& model_;
  const ops::Registry& registry_;
  device::Device& device_;
  const ProductTunerOptions& options_;
  ops::ProductTuning& tuning_;
  ops::EagerDispatcher dispatcher_;
  ops::ForwardContext context_;
  std::vector<ProductWeights> products_;
};

}  // namespace

std::vector<TunedProduct> tune_products(const Model& model, const ops::Registry& registry, device::Device& device,
                                        const std::map<std::string, std::string>& known,
                                        const ProductTunerOptions& options) {
  const ops::OpKernel* kernel = registry.get("linear").kernel(device.name());
  if (kernel == nullptr || kernel->tuning == nullptr) return {};
  return ProductTuner(model, registry, device, options, *kernel->tuning).run(known);
}

}  // namespace reprise::model
