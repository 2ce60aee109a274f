#include "model/compare_outputs.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/product_observer.h"
#include "ops/eager_dispatcher.h"
#include "ops/moe.h"

namespace reprise::model {
namespace {

/// The layers of a quantised model by name.
class QuantizedLayers {
 public:
  explicit QuantizedLayers(const Model& model) {
    for (const auto& [name, tensor] : model.named_parameters()) tensors_.emplace(name, tensor);
  }

  /// Nothing for a layer that stayed float.
  std::optional<ops::LinearWeights> find(const std::string& layer) const {
    ops::LinearWeights weights;
    weights.weight = get(layer + ".weight");
    if (!weights.weight.defined() || weights.weight.dtype() != DType::kI8) return std::nullopt;
    weights.bias = get(layer + ".bias");
    weights.scale = get(layer + ".deq_scale");
    if (!weights.scale.defined()) {
      weights.scale = get(layer + ".weight_scale");
      return weights;
    }
    weights.quant_bias = get(layer + ".quant_bias");
    weights.input_scale = of_input(layer, ".input_scale");
    weights.input_offset = of_input(layer, ".input_offset");
    return weights;
  }

 private:
  Tensor get(const std::string& name) const {
    const auto place = tensors_.find(name);
    return place == tensors_.end() ? Tensor() : place->second;
  }
  /// Layers of one input share what quantises it, under the name of the first of them.
  Tensor of_input(const std::string& layer, const char* suffix) const {
    Tensor own = get(layer + suffix);
    if (own.defined()) return own;
    const std::string prefix = layer.substr(0, layer.rfind('.') + 1);
    const Tensor query = get(prefix + "q_proj" + suffix);
    return query.defined() ? query : get(prefix + "gate_proj" + suffix);
  }

  std::map<std::string, Tensor> tensors_;
};

/// What a cosine is made of.
struct Sums {
  double dot = 0, exact = 0, other = 0;
  OutputError error;

  void add(const std::vector<float>& a, const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      const double x = a[i];
      const double y = b[i];
      dot += x * y;
      exact += x * x;
      other += y * y;
      error.largest = std::max(error.largest, std::abs(x - y));
      error.largest_output = std::max(error.largest_output, std::abs(x));
    }
  }
};

}  // namespace

std::map<std::string, OutputError> compare_outputs(const Model& exact, const Model& quantized,
                                                   const ops::Registry& registry, device::Device& device,
                                                   const std::vector<std::vector<int32_t>>& texts,
                                                   const std::function<void(size_t done)>& progress) {
  const QuantizedLayers layers(quantized);
  ops::EagerDispatcher dispatcher(registry, device, device.default_stream());
  ops::ForwardContext context(dispatcher);
  std::map<std::string, Sums> sums;
  const auto observe = [&](const Product& product) {
    const std::optional<ops::LinearWeights> weights = layers.find(product.layer);
    if (!weights) return;
    const Tensor& x = product.inputs[0];
    const DType dtype = product.output.dtype();
    const Tensor y = product.op == "linear" ? ops::linear(context, x, *weights, dtype)
                                            : ops::grouped_linear(context, x, *weights, product.inputs[2], dtype);
    dispatcher.stream().synchronize();
    sums[product.layer].add(values_on_host(device, product.output), values_on_host(device, y));
  };
  observe_products(exact, registry, device, texts, observe, progress);
  std::map<std::string, OutputError> errors;
  for (auto& [layer, sum] : sums) {
    if (sum.exact > 0 && sum.other > 0) sum.error.cosine = sum.dot / std::sqrt(sum.exact * sum.other);
    errors.emplace(layer, sum.error);
  }
  return errors;
}

}  // namespace reprise::model
