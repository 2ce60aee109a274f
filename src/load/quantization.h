#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "load/layer_pattern.h"

namespace reprise::load {

/// How one linear layer is stored and computed.
enum class LinearScheme {
  kFloat,
  kW8A8,         ///< int8 weights with a scale for each output, activations with one scale and offset for all tokens
  kW8A8Dynamic,  ///< the same weights, activations with a scale for each token
};
/// msmodelslim's names: "FLOAT", "W8A8", "W8A8_DYNAMIC".
std::string_view name_of(LinearScheme scheme);

/// Which layers of a checkpoint are quantised, and under which convention its tensors are named. Nothing is by default.
class Quantization {
 public:
  enum class Convention { kNone, kModelSlim, kCompressedTensors };

  Quantization() = default;

  /// msmodelslim's quant_model_description.json: the type of each tensor by its name. `what` names the file in
  /// messages. Keys without effect are added to `unused_keys`. Throws kCorruptData (no such object, types of one layer
  /// that contradict each other) or kUnsupported (a type that is not known, naming the tensor).
  static Quantization from_description(std::string_view json, const std::string& what,
                                       std::vector<std::string>& unused_keys);
  /// The quantization_config of a config.json that `what` names: compressed-tensors with symmetric int8 weights, a
  /// scale for each channel, and symmetric int8 activations, a scale for each token. Everything else is refused by name
  /// (kUnsupported); wrong types are kCorruptData.
  static Quantization from_compressed_tensors(const nlohmann::json& config, const std::string& what,
                                              std::vector<std::string>& unused_keys);

  Convention convention() const { return convention_; }
  bool quantizes_anything() const { return convention_ != Convention::kNone; }
  /// Of the linear layer "model.layers.0.mlp.down_proj". Throws kCorruptData when a description has no word about it.
  LinearScheme scheme_of(std::string_view layer) const;
  /// compressed-tensors: whether the layer is quantised by its name, not only as one of all linear layers.
  bool targets_by_name(std::string_view layer) const;
  /// msmodelslim: whether the description names a tensor. Norms have a bias where it does (a norm of a model whose
  /// outliers were moved into weights).
  bool describes(std::string_view tensor) const;
  /// msmodelslim: the layers that are quantised.
  std::vector<std::string> described_layers() const;
  /// What says so, for messages: the file, or the config's key.
  const std::string& source() const { return source_; }

 private:
  Convention convention_ = Convention::kNone;
  std::string source_;
  std::map<std::string, LinearScheme, std::less<>> tensors_;  ///< msmodelslim
  std::vector<LayerPattern> targets_;                         ///< compressed-tensors; empty: every linear layer
  bool targets_all_ = false;
  std::vector<LayerPattern> ignored_;
};

}  // namespace reprise::load
