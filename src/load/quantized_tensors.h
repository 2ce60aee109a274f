#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/check_tensors.h"
#include "load/checkpoint.h"
#include "load/model_config.h"

namespace reprise::load {

// The tensors of a quantised linear layer of N outputs and K inputs, all under the layer's name:
//   weight        int8 [N, K], symmetric
//   W8A8          input_scale, input_offset [1]; deq_scale [N] (float32, or int64 whose low half is a float32's bits);
//                 quant_bias int32 [N]: y = (q weight^T + quant_bias) * deq_scale for the quantised input q. The bias
//                 of the layer and the part of the offset are in quant_bias. weight_scale, weight_offset are not
//                 needed.
//   W8A8_DYNAMIC  weight_scale [N] (weight_offset or weight_zero_point: zeros); bias, where the float layer has one
// Vectors of N may be stored as [N, 1] or [1, N].

/// Adds the tensors of a linear layer with a weight of `shape` [N, K], as its scheme stores them.
void add_linear_tensors(std::vector<ExpectedTensor>& result, const Quantization& quantization, const std::string& layer,
                        const Shape& shape, bool bias);

/// The linear layers that may be quantised, in the order of the model, without the output head.
std::vector<std::string> linear_layers(const ModelConfig& config);

/// The linear layers that choose experts. They are float in every checkpoint.
std::vector<std::string> router_layers(const ModelConfig& config);

/// Whether the output head has a quantised weight of its own, whatever the config says about tying it.
bool quantizes_head(const ModelConfig& config);

/// That a config's quantisation fits its model: a description names every linear layer and quantises nothing else (no
/// embedding, no router of experts; a router that "Linear" takes in is float all the same, since not every library
/// makes it a linear layer, and its tensor must say so), and layers that are computed together (query, key and value;
/// gate and up; the experts of a layer) have one scheme. Reports everything in one error (kCorruptData). Experts whose
/// inputs are quantised with one scale for all tokens are refused with their names (kUnsupported).
void check_quantization(const ModelConfig& config);

/// The largest magnitude of a quant_bias of a layer of so many inputs: with it no sum leaves int32, whatever the input.
int64_t largest_quant_bias(int64_t inputs);

/// That the scales are numbers to compute with, sums of a quant_bias and any products stay in int32, offsets of
/// activations are int8, and those of weights are zero (an asymmetric weight is refused). Reads them; call after
/// check_tensors. Reports everything in one error (kCorruptData).
void check_quantized_values(const Checkpoint& checkpoint, const ModelConfig& config);

/// The values of a scale or an offset: float32, bfloat16, float16, int8, int32, or packed in int64 (see above).
std::vector<float> scale_values(const StoredTensor& tensor);

}  // namespace reprise::load
