#include "model/factory.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
#include "load/checkpoint.h"
#include "model/qwen3.h"
#include "ops/attention_support.h"
#include "ops/product_tuning.h"

namespace reprise::model {
namespace {

DType compute_dtype(const load::ModelConfig& config, const ModelOptions& options) {
  if (options.dtype) {
    if (*options.dtype != DType::kF32 && *options.dtype != DType::kBF16) {
      throw Error(ErrorCode::kUnsupported, "a model cannot compute in {}", name_of(*options.dtype))
          .remedy("use float32 or bfloat16");
    }
    return *options.dtype;
  }
  return config.dtype.value_or(DType::kF32) == DType::kF32 ? DType::kF32 : DType::kBF16;
}

void log_unused(const std::string& file, const std::vector<std::string>& keys) {
  if (!keys.empty()) log_info("{}: keys without effect: {}", file, fmt::join(keys, ", "));
}

std::unique_ptr<Model> build(const load::ModelConfig& config, const load::Checkpoint* checkpoint,
                             WeightBuilder::Use use, const ops::Registry& registry, device::Device& device,
                             const ModelOptions& options) {
  log_unused("config.json", config.unused_keys);
  log_unused(config.quantization.source(), config.unused_description_keys);
  const DType dtype = compute_dtype(config, options);
  // Before the weights are read.
  ops::check_attention_support(
      registry, device.name(),
      {.dtype = dtype, .page_size = device.capabilities().default_page_size, .prompts = false});
  ExpertOptions experts;
  experts.count_rows = options.count_expert_rows;
  if (options.expert_placement) {
    experts.placements = place_experts(config, *options.expert_placement);
    experts.dynamic = options.expert_placement->dynamic;
  }
  WeightBuilder weights(checkpoint, use, config, registry, device, dtype, options.progress);
  if (use == WeightBuilder::Use::kLoad && options.pack_cache) {
    weights.use_pack_cache(
        load::pack_cache_path(checkpoint->path(), *options.pack_cache, device.name(), name_of(dtype)));
  }
  return std::make_unique<Qwen3Model>(config, dtype, weights, std::move(experts), options.int8_kv);
}

/// Without weights there is still a plan, but not every word that graphs depend on.
std::optional<load::Checkpoint> open_if_there(const std::filesystem::path& path) {
  try {
    return load::Checkpoint::open(path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    log_info("planned from the config alone: {}", error.message());
    return std::nullopt;
  }
}

}  // namespace

std::unique_ptr<Model> load_model(const std::filesystem::path& path, const ops::Registry& registry,
                                  device::Device& device, const ModelOptions& options) {
  const load::ModelConfig config = load::ModelConfig::load(load::model_directory(path));
  if (options.without_weights) {
    const std::optional<load::Checkpoint> described = open_if_there(path);
    return build(config, described ? &*described : nullptr, WeightBuilder::Use::kPlan, registry, device, options);
  }
  const load::Checkpoint checkpoint = load::Checkpoint::open(path);
  std::unique_ptr<Model> model = build(config, &checkpoint, WeightBuilder::Use::kLoad, registry, device, options);
  const ops::OpKernel* kernel = registry.get("linear").kernel(device.name());
  if (kernel != nullptr && kernel->tuning != nullptr) {
    kernel->tuning->expect_weights(model->load_report().weight_bytes);
  }
  return model;
}

std::unique_ptr<Model> plan_model(const load::ModelConfig& config, const ops::Registry& registry,
                                  device::Device& device, const ModelOptions& options) {
  return build(config, nullptr, WeightBuilder::Use::kPlan, registry, device, options);
}

}  // namespace reprise::model
