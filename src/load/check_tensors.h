#pragma once

#include <string>
#include <vector>

#include "load/checkpoint.h"
#include "load/model_config.h"
#include "load/safetensors_writer.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace reprise::load {

/// A tensor that a model wants from its checkpoint.
struct ExpectedTensor {
  std::string name;
  Shape shape;
  bool required = true;
  /// What it may be stored as; the default is what weights are: float32, bfloat16 or float16.
  std::vector<DType> dtypes = {DType::kF32, DType::kBF16, DType::kF16};
  /// Shapes that hold the same numbers in the same order.
  std::vector<Shape> equivalent_shapes = {};
};

/// Checks a checkpoint against what a model wants, and reports everything in one error (kCorruptData): missing tensors,
/// tensors that the model has no use for, wrong shapes and wrong dtypes. Surplus tensors are errors, since they tell
/// that the model is another one (biases without attention_bias, for instance), except for the `rotary_emb.inv_freq`
/// buffers that old writers saved, which follow from the config.
void check_tensors(const Checkpoint& checkpoint, const std::vector<ExpectedTensor>& expected);

/// The same of tensors that are to become a checkpoint, which `what` names.
void check_tensors(const std::vector<TensorSpec>& tensors, const std::string& what,
                   const std::vector<ExpectedTensor>& expected);

/// Every tensor of a Qwen3 or Qwen3-MoE checkpoint, under Hugging Face's names, in the order of the layers: those of
/// quantised layers as their scheme stores them (see load/quantized_tensors.h). lm_head.weight is optional where the
/// config ties it to the embedding and it is not quantised. Throws as check_quantization does.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

/// The tensor that the output head multiplies with, as recent Hugging Face libraries choose: without tied embeddings
/// lm_head.weight; with them model.embed_tokens.weight, unless the checkpoint has an lm_head.weight with other content,
/// which then is taken as it is (the caller should warn: the config says otherwise). Reads both tensors when both are
/// there. Call after check_tensors.
struct HeadChoice {
  const StoredTensor* tensor = nullptr;
  bool tied = false;                ///< the head is the embedding
  bool contradicts_config = false;  ///< the config ties them, but the checkpoint's head differs
};
HeadChoice choose_head(const Checkpoint& checkpoint, const ModelConfig& config);

}  // namespace reprise::load
