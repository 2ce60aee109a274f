#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "load/model_config.h"
#include "model/expert_placement.h"
#include "model/model.h"
#include "model/weight_builder.h"
#include "ops/registry.h"

namespace reprise::model {

struct ModelOptions {
  /// float32 or bfloat16; absent: bfloat16 where the config says bfloat16 or float16, else float32.
  std::optional<DType> dtype;
  /// Keep keys and values as int8, with a scale for each token and KV head.
  bool int8_kv = false;
  /// Build the model without reading weights: it can be traced, planned and drawn, not run. Its graphs are those of the
  /// loaded model where its files are there: they are looked at for dtypes and for equal scales.
  bool without_weights = false;
  /// Count the rows of each expert, see Model::expert_load().
  bool count_expert_rows = false;
  /// Let experts lie anywhere, with copies, and be moved; absent: each at its own place for good.
  std::optional<ExpertPlacementOptions> expert_placement;
  WeightBuilder::Progress progress;
  /// Save packed weights in this directory, or beside the model where it is "", and map them on the next start.
  std::optional<std::filesystem::path> pack_cache;
};

/// Builds the model of a Hugging Face directory, or of a single .safetensors file with its config.json beside it.
/// Weights are prepared on `device`, on its default stream. Throws kUnsupported for architectures that are not built
/// in.
std::unique_ptr<Model> load_model(const std::filesystem::path& path, const ops::Registry& registry,
                                  device::Device& device, const ModelOptions& options = {});

/// The same from a config alone, without weights.
std::unique_ptr<Model> plan_model(const load::ModelConfig& config, const ops::Registry& registry,
                                  device::Device& device, const ModelOptions& options = {});

}  // namespace reprise::model
