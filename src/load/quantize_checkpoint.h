#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "load/quantization.h"

namespace reprise::load {

/// The least and the largest value that a layer's input has been seen to take.
struct ActivationRange {
  float least = 0;
  float largest = 0;
};

struct QuantizeOptions {
  /// kW8A8: needs the ranges of all inputs. Layers named *.down_proj and experts keep a scale for each token even so,
  /// as published checkpoints have them: single tokens go far beyond all others there.
  LinearScheme scheme = LinearScheme::kW8A8Dynamic;
  /// kCompressedTensors knows kW8A8Dynamic only.
  Quantization::Convention convention = Quantization::Convention::kModelSlim;
  /// Expressions for the names of layers that stay float; each must match one.
  std::vector<std::string> ignore;
  /// Quantises the output head too (for each token); a tied one becomes a weight of its own.
  bool head = false;
  /// kW8A8: by layer.
  std::map<std::string, ActivationRange> ranges;
  /// Bytes read of all bytes, about to quantise or copy `name`. What it throws ends the work and leaves no model.
  std::function<void(const std::string& name, uint64_t done, uint64_t total)> progress;
};

/// How far the int8 weights of a layer, scaled back, are from the float ones.
struct LayerError {
  std::string layer;
  LinearScheme scheme = LinearScheme::kFloat;
  double cosine = 1;   ///< of the angle between both, as vectors
  double largest = 0;  ///< difference of a weight
};

/// That quantize_checkpoint() could begin: the errors that it would end with before it writes anything, but for ranges
/// that are not there yet.
void check_quantize_checkpoint(const std::filesystem::path& model, const std::filesystem::path& output,
                               const QuantizeOptions& options);

/// The layers that quantize_checkpoint() would quantise statically, whose ranges it needs.
std::vector<std::string> static_layers(const std::filesystem::path& model, const QuantizeOptions& options);

/// Writes a W8A8 checkpoint of a float one into a new directory: int8 weights with a scale for each output (largest
/// magnitude / 127, rounded half to even), everything else as it is, config.json, and the tokenizer's files. Memory
/// holds a row at a time and the scales of a layer. Throws kInvalidArgument (options that do not go together, an input
/// that is quantised already), kCorruptData (weights that are no numbers, naming them), kIo.
std::vector<LayerError> quantize_checkpoint(const std::filesystem::path& model, const std::filesystem::path& output,
                                            const QuantizeOptions& options);

}  // namespace reprise::load
