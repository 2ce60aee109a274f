#include "load/quantized_tensors.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>

#include "base/error.h"
#include "load/convert.h"
#include "load/json.h"
#include "load/problems.h"

namespace reprise::load {
namespace {

const std::vector<DType> kScaleTypes = {DType::kF32, DType::kBF16, DType::kF16};
const std::vector<DType> kOffsetTypes = {DType::kF32, DType::kBF16, DType::kF16, DType::kI8, DType::kI32};

ExpectedTensor channel_vector(std::string name, Dim outputs, std::vector<DType> dtypes, bool required) {
  return {std::move(name), Shape{outputs}, required, std::move(dtypes), {Shape{outputs, 1}, Shape{1, outputs}}};
}

ExpectedTensor single(std::string name, std::vector<DType> dtypes) {
  return {std::move(name), Shape{1}, true, std::move(dtypes), {Shape()}};
}

/// Linear layers that must have one scheme.
using Group = std::vector<std::string>;

std::vector<Group> groups_of(const ModelConfig& config) {
  std::vector<Group> groups;
  const auto add_mlp = [&](const std::string& prefix) {
    groups.push_back({prefix + "gate_proj", prefix + "up_proj"});
    groups.push_back({prefix + "down_proj"});
  };
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    const std::string attention = layer + "self_attn.";
    groups.push_back({attention + "q_proj", attention + "k_proj", attention + "v_proj"});
    groups.push_back({attention + "o_proj"});
    if (!config.is_sparse_layer(i)) {
      add_mlp(layer + "mlp.");
      continue;
    }
    Group first, second;
    for (int64_t expert = 0; expert < config.num_experts; ++expert) {
      const std::string prefix = fmt::format("{}mlp.experts.{}.", layer, expert);
      first.insert(first.end(), {prefix + "gate_proj", prefix + "up_proj"});
      second.push_back(prefix + "down_proj");
    }
    groups.push_back(std::move(first));
    groups.push_back(std::move(second));
  }
  return groups;
}

bool is_expert(const std::string& layer) { return layer.find(".mlp.experts.") != std::string::npos; }

/// Adds "NAME[i] is VALUE, not WANTED" for the first value that `fits` refuses.
template <typename Fits>
void check_values(const StoredTensor& tensor, const char* wanted, Problems& problems, Fits fits) {
  const std::vector<float> values = scale_values(tensor);
  for (size_t i = 0; i < values.size(); ++i) {
    if (fits(values[i])) continue;
    problems.add(fmt::format("{}[{}] is {}, not {}", printable(tensor.name), i, values[i], wanted));
    return;
  }
}

/// The upper half of a packed scale would ask for something that is not known.
void check_packed(const StoredTensor& tensor, Problems& problems) {
  if (tensor.dtype != DType::kI64) return;
  for (size_t at = 0; at < tensor.bytes.size(); at += sizeof(uint64_t)) {
    uint64_t bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + at, sizeof(bits));
    if (bits >> 32 == 0) continue;
    problems.add(
        fmt::format("{}[{}] is {:#x}, not the bits of a float32", printable(tensor.name), at / sizeof(bits), bits));
    return;
  }
}

/// Sums wrap in int32, which no reader of the results could see.
void check_bias(const StoredTensor& bias, int64_t inputs, Problems& problems) {
  const int64_t largest = largest_quant_bias(inputs);
  for (size_t i = 0; i < static_cast<size_t>(bias.shape.elements()); ++i) {
    int32_t value = 0;
    std::memcpy(&value, bias.bytes.data() + i * sizeof(value), sizeof(value));
    if (std::abs(int64_t{value}) <= largest) continue;
    problems.add(fmt::format("{}[{}] is {}: with the products of {} inputs it can leave int32", printable(bias.name), i,
                             value, inputs));
    return;
  }
}

void check_layer_values(const Checkpoint& checkpoint, const std::string& layer, LinearScheme scheme,
                        Problems& problems) {
  const auto is_zero = [](float value) { return value == 0; };
  const auto is_finite = [](float value) { return std::isfinite(value); };
  for (const char* suffix : {".weight_offset", ".weight_zero_point"}) {
    const StoredTensor* offset = checkpoint.find(layer + suffix);
    if (offset != nullptr) check_values(*offset, "0, which symmetric weights have", problems, is_zero);
  }
  if (scheme == LinearScheme::kW8A8Dynamic) {
    check_values(checkpoint.at(layer + ".weight_scale"), "a finite number", problems, is_finite);
    return;
  }
  check_bias(checkpoint.at(layer + ".quant_bias"), checkpoint.at(layer + ".weight").shape.size(1), problems);
  const StoredTensor& scale = checkpoint.at(layer + ".deq_scale");
  check_packed(scale, problems);
  check_values(scale, "a finite number", problems, is_finite);
  // The reciprocal is what activations are multiplied by.
  check_values(checkpoint.at(layer + ".input_scale"), "a normal positive number", problems,
               [](float value) { return value > 0 && std::isnormal(value) && std::isnormal(1 / value); });
  check_values(checkpoint.at(layer + ".input_offset"), "an integer from -128 to 127", problems,
               [](float value) { return value >= -128 && value <= 127 && value == std::nearbyint(value); });
}

}  // namespace

void add_linear_tensors(std::vector<ExpectedTensor>& result, const Quantization& quantization, const std::string& layer,
                        const Shape& shape, bool bias) {
  const LinearScheme scheme = quantization.scheme_of(layer);
  const Dim outputs = shape[0];
  if (scheme == LinearScheme::kFloat) {
    result.push_back({layer + ".weight", shape});
    if (bias) result.push_back({layer + ".bias", Shape{outputs}});
    return;
  }
  const bool dynamic = scheme == LinearScheme::kW8A8Dynamic;
  result.push_back({layer + ".weight", shape, true, {DType::kI8}});
  result.push_back(channel_vector(layer + ".weight_scale", outputs, kScaleTypes, dynamic));
  const bool slim = quantization.convention() == Quantization::Convention::kModelSlim;
  result.push_back(
      channel_vector(layer + (slim ? ".weight_offset" : ".weight_zero_point"), outputs, kOffsetTypes, false));
  if (dynamic) {
    if (bias) result.push_back({layer + ".bias", Shape{outputs}});
    return;
  }
  result.push_back(single(layer + ".input_scale", kScaleTypes));
  result.push_back(single(layer + ".input_offset", kOffsetTypes));
  result.push_back(channel_vector(layer + ".deq_scale", outputs, {DType::kF32, DType::kI64}, true));
  result.push_back(channel_vector(layer + ".quant_bias", outputs, {DType::kI32}, true));
}

std::vector<std::string> linear_layers(const ModelConfig& config) {
  std::vector<std::string> layers;
  for (const Group& group : groups_of(config)) layers.insert(layers.end(), group.begin(), group.end());
  return layers;
}

std::vector<std::string> router_layers(const ModelConfig& config) {
  std::vector<std::string> routers;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    if (config.is_sparse_layer(i)) routers.push_back(fmt::format("model.layers.{}.mlp.gate", i));
  }
  return routers;
}

bool quantizes_head(const ModelConfig& config) {
  const Quantization& quantization = config.quantization;
  // A description need not name a head that is tied to the embedding.
  if (quantization.convention() == Quantization::Convention::kModelSlim && !quantization.describes("lm_head.weight")) {
    return false;
  }
  // "Linear" means a head of its own only.
  if (quantization.convention() == Quantization::Convention::kCompressedTensors && config.tie_word_embeddings) {
    return false;
  }
  return quantization.scheme_of("lm_head") != LinearScheme::kFloat;
}

void check_quantization(const ModelConfig& config) {
  const Quantization& quantization = config.quantization;
  if (!quantization.quantizes_anything()) return;
  Problems problems;
  Problems unsupported;
  std::set<std::string, std::less<>> known = {"lm_head"};
  for (const Group& group : groups_of(config)) {
    std::optional<LinearScheme> first;
    bool mixed = false;
    for (const std::string& layer : group) {
      known.insert(layer);
      try {
        const LinearScheme scheme = quantization.scheme_of(layer);
        if (!first && scheme == LinearScheme::kW8A8 && is_expert(layer)) {
          unsupported.add(fmt::format("{} is {}", layer, name_of(scheme)));
        }
        if (!first) first = scheme;
        if (scheme == *first || mixed) continue;
        problems.add(fmt::format("{} is {}, but {}, which is computed with it, is {}", layer, name_of(scheme), group[0],
                                 name_of(*first)));
        mixed = true;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kCorruptData) throw;
        problems.add(error.what());
      }
    }
  }
  for (const std::string& router : router_layers(config)) {
    if (quantization.convention() == Quantization::Convention::kModelSlim &&
        !quantization.describes(router + ".weight")) {
      problems.add(fmt::format("{} says nothing of {}.weight", quantization.source(), router));
    }
    if (quantization.targets_by_name(router))
      problems.add(fmt::format("{} is quantised, but routers stay float", router));
  }
  for (const std::string& layer : quantization.described_layers()) {
    if (!known.contains(layer)) {
      problems.add(
          fmt::format("{} is quantised, but it is no linear layer of this model that can be", printable(layer)));
    }
  }
  problems.throw_if_any(ErrorCode::kCorruptData, quantization.source() + " does not fit the model");
  unsupported.throw_if_any(ErrorCode::kUnsupported,
                           fmt::format("{}: experts can be {} or {}", quantization.source(),
                                       name_of(LinearScheme::kFloat), name_of(LinearScheme::kW8A8Dynamic)));
}

void check_quantized_values(const Checkpoint& checkpoint, const ModelConfig& config) {
  if (!config.quantization.quantizes_anything()) return;
  Problems problems;
  std::vector<Group> groups = groups_of(config);
  if (quantizes_head(config)) groups.push_back({"lm_head"});
  for (const Group& group : groups) {
    for (const std::string& layer : group) {
      const LinearScheme scheme = config.quantization.scheme_of(layer);
      if (scheme != LinearScheme::kFloat) check_layer_values(checkpoint, layer, scheme, problems);
    }
  }
  problems.throw_if_any(ErrorCode::kCorruptData, checkpoint.path().string() + " cannot be computed with");
}

int64_t largest_quant_bias(int64_t inputs) {
  // Both factors of a product can be -128.
  constexpr int64_t kLargestProduct = 128 * 128;
  return std::numeric_limits<int32_t>::max() - kLargestProduct * inputs;
}

std::vector<float> scale_values(const StoredTensor& tensor) {
  const size_t count = static_cast<size_t>(tensor.shape.elements());
  std::vector<float> values(count);
  const auto read_all = [&]<typename Stored>(Stored element, auto number) {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(&element, tensor.bytes.data() + i * sizeof(element), sizeof(element));
      values[i] = number(element);
    }
  };
  switch (tensor.dtype) {
    case DType::kI8:
      read_all(int8_t{}, [](int8_t value) { return static_cast<float>(value); });
      break;
    case DType::kI32:
      read_all(int32_t{}, [](int32_t value) { return static_cast<float>(value); });
      break;
    case DType::kI64:
      read_all(uint64_t{}, [](uint64_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value)); });
      break;
    default:
      convert_to_float(tensor.dtype, tensor.bytes, values);
  }
  return values;
}

}  // namespace reprise::load
