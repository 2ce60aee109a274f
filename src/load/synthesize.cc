#include "load/synthesize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "load/check_tensors.h"
#include "load/convert.h"
#include "load/generation_config.h"
#include "load/json.h"
#include "load/model_config.h"
#include "load/model_shapes.h"
#include "load/output_directory.h"
#include "load/quantized_tensors.h"
#include "load/safetensors_writer.h"
#include "tensor/bfloat16.h"

namespace reprise::load {
namespace {

/// 4 MiB of bfloat16: small beside any model, large beside the cost of a system call.
constexpr size_t kChunkElements = size_t{2} << 20;
/// Distinct values of a tensor; a table of 8 KiB stays in the first-level cache.
constexpr size_t kLevels = 4096;

/// The finaliser of SplitMix64: every bit of the result depends on every bit of the counter.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

uint64_t key_of(uint64_t seed, std::string_view name) { return mix(hash_text(name) + mix(seed + 0x9E3779B97F4A7C15u)); }

/// Quantiles of the standard normal distribution at (i + 0.5) / kLevels.
std::array<float, kLevels> make_normal_quantiles() {
  std::array<float, kLevels> result{};
  for (size_t i = 0; i < kLevels; ++i) {
    const double wanted = (static_cast<double>(i) + 0.5) / kLevels;
    double low = -8.0;
    double high = 8.0;
    for (int step = 0; step < 50; ++step) {
      const double middle = 0.5 * (low + high);
      (0.5 * std::erfc(-middle / std::numbers::sqrt2) < wanted ? low : high) = middle;
    }
    result[i] = static_cast<float>(low);
  }
  return result;
}

/// Produces the values of one tensor in order.
class ValueStream {
 public:
  ValueStream(const std::array<float, kLevels>& quantiles, uint64_t seed, const std::string& name)
      : key_(key_of(seed, name)) {
    const bool norm = name.ends_with("norm.weight");
    const float mean = norm ? 1.0f : 0.0f;
    const float deviation = norm ? 0.05f : 0.02f;
    for (size_t i = 0; i < kLevels; ++i) table_[i] = to_bfloat16(mean + deviation * quantiles[i]);
  }

  /// `first` is a multiple of 4: one hash gives four values.
  void fill(uint64_t first, std::span<BFloat16> target) const {
    const size_t whole = target.size() / 4 * 4;
    for (size_t i = 0; i < whole; i += 4) {
      const uint64_t bits = hash(first + i);
      target[i] = table_[bits & (kLevels - 1)];
      target[i + 1] = table_[(bits >> 16) & (kLevels - 1)];
      target[i + 2] = table_[(bits >> 32) & (kLevels - 1)];
      target[i + 3] = table_[(bits >> 48) & (kLevels - 1)];
    }
    for (size_t i = whole; i < target.size(); ++i) {
      target[i] = table_[(hash(first + whole) >> (16 * (i - whole))) & (kLevels - 1)];
    }
  }

 private:
  uint64_t hash(uint64_t index) const { return mix(key_ + (index / 4 + 1) * 0x9E3779B97F4A7C15u); }

  uint64_t key_;
  std::array<BFloat16, kLevels> table_{};
};

struct Shard {
  std::string name;
  std::vector<TensorSpec> tensors;
  uint64_t bytes = 0;
};

std::vector<Shard> plan_shards(const ModelConfig& config, uint64_t max_shard_bytes) {
  std::vector<Shard> shards(1);
  for (const ExpectedTensor& expected : expected_tensors(config)) {
    if (!expected.required) continue;
    TensorSpec tensor{expected.name, DType::kBF16, expected.shape};
    const uint64_t bytes = tensor.bytes();
    const uint64_t room = max_shard_bytes - std::min(max_shard_bytes, shards.back().bytes);
    if (shards.back().bytes > 0 && bytes > room) shards.emplace_back();
    shards.back().bytes += bytes;
    shards.back().tensors.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].name = shards.size() == 1 ? "model.safetensors"
                                        : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  return shards;
}

/// The text of the config.json that `shape` names.
std::string find_config(const std::string& shape) {
  if (const std::optional<std::string> known = config_of_shape(shape)) return *known;
  const std::filesystem::path path(shape);
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "config.json" : path;
  if (!std::filesystem::exists(file)) {
    std::string names;
    for (const std::string& name : known_shapes()) names += name + ", ";
    throw Error(ErrorCode::kNotFound, "{} is no known shape and no config.json", printable(shape))
        .remedy(fmt::format("known are {}or give the path of a config.json", names));
  }
  return read_file(file, kMaxConfigBytes);
}

void write_index(const std::filesystem::path& directory, const std::vector<Shard>& shards, uint64_t total) {
  nlohmann::json map = nlohmann::json::object();
  for (const Shard& shard : shards) {
    for (const TensorSpec& tensor : shard.tensors) map[tensor.name] = shard.name;
  }
  const nlohmann::json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  write_small_file(directory / "model.safetensors.index.json", index.dump(2) + "\n");
}

void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to) {
  constexpr size_t kMostBytes = size_t{256} << 20;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    if (std::filesystem::exists(from / name)) write_small_file(to / name, read_file(from / name, kMostBytes));
  }
}

void write_configs(const std::string& shape, const std::string& config_text, const std::filesystem::path& directory) {
  const bool known = config_of_shape(shape).has_value();
  if (known) write_small_file(directory / "generation_config.json", generation_config_of_shapes());
  write_small_file(directory / "config.json", config_text);
}

constexpr const char* kDescriptionName = "quant_model_description.json";

/// What msmodelslim would write of a model whose linear layers all have a scheme.
std::string describe_scheme(const ModelConfig& config, LinearScheme scheme) {
  nlohmann::ordered_json description{{"model_quant_type", name_of(scheme)}};
  for (const ExpectedTensor& tensor : expected_tensors(config)) description[tensor.name] = "FLOAT";
  for (const std::string& layer : linear_layers(config)) {
    const bool keeps_tokens_apart = layer.ends_with("down_proj") || layer.find(".mlp.experts.") != std::string::npos;
    description[layer + ".weight"] = name_of(keeps_tokens_apart ? LinearScheme::kW8A8Dynamic : scheme);
  }
  return description.dump(1) + "\n";
}

/// bfloat16 where that is allowed, as it is in published checkpoints.
DType hollow_dtype(const ExpectedTensor& tensor) {
  const bool is_bfloat16 = std::ranges::find(tensor.dtypes, DType::kBF16) != tensor.dtypes.end();
  return is_bfloat16 ? DType::kBF16 : tensor.dtypes.front();
}

bool is_hollow(const TensorSpec& tensor) { return tensor.shape.rank() > 1; }

/// 1 for norms, 1/64 for scales, 0 for what is added.
std::vector<std::byte> plain_values(const TensorSpec& tensor) {
  const bool is_scale = tensor.name.ends_with("scale");
  const float value = tensor.name.ends_with("norm.weight") ? 1.0f : is_scale ? 0x1p-6f : 0.0f;
  std::vector<std::byte> bytes(tensor.bytes());
  if (value == 0) return bytes;
  const std::vector<float> values(static_cast<size_t>(tensor.shape.elements()), value);
  convert(DType::kF32, std::as_bytes(std::span(values)), tensor.dtype, bytes);
  return bytes;
}

}  // namespace

void synthesize_checkpoint(const std::string& shape, const std::filesystem::path& directory,
                           const SynthesisOptions& options) {
  const std::string config_text = find_config(shape);
  const ModelConfig config = ModelConfig::parse(config_text, shape);
  if (options.tokenizer_ids > config.vocab_size) {
    throw Error(ErrorCode::kInvalidArgument, "the tokenizer of {} has ids up to {}, but the vocabulary of {} is {}",
                options.tokenizer.string(), options.tokenizer_ids - 1, printable(shape), config.vocab_size);
  }
  if (config.quantization.quantizes_anything()) {
    throw Error(ErrorCode::kUnsupported, "{}: random weights are float, not quantised", shape)
        .remedy("quantise the written model");
  }
  const std::vector<Shard> shards = plan_shards(config, options.max_shard_bytes);
  uint64_t total = 0;
  for (const Shard& shard : shards) {
    if (__builtin_add_overflow(total, shard.bytes, &total)) {
      throw Error(ErrorCode::kInvalidArgument, "{}: a model of this shape is larger than any disk", shape);
    }
  }
  prepare_model_directory(directory, total);

  const std::array<float, kLevels> quantiles = make_normal_quantiles();
  std::vector<BFloat16> chunk(kChunkElements);
  uint64_t written = 0;
  for (const Shard& shard : shards) {
    SafetensorsWriter writer(directory / shard.name, shard.tensors);
    // Another may have finished a model between that look and the first writer's lock.
    if (written == 0) check_model_directory(directory, 0);
    for (const TensorSpec& tensor : shard.tensors) {
      const ValueStream values(quantiles, options.seed, tensor.name);
      const uint64_t elements = static_cast<uint64_t>(tensor.shape.elements());
      for (uint64_t done = 0; done < elements; done += kChunkElements) {
        const std::span<BFloat16> part(chunk.data(), std::min<uint64_t>(kChunkElements, elements - done));
        values.fill(done, part);
        writer.append(tensor.name, std::as_bytes(part));
        written += part.size_bytes();
        if (options.progress) options.progress(written, total);
      }
    }
    writer.finish();
  }
  if (shards.size() > 1) write_index(directory, shards, total);
  if (!options.tokenizer.empty()) copy_tokenizer(options.tokenizer, directory);
  write_configs(shape, config_text, directory);
}

void synthesize_hollow_checkpoint(const std::string& shape, const std::filesystem::path& directory,
                                  LinearScheme scheme) {
  const std::string config_text = find_config(shape);
  ModelConfig config = ModelConfig::parse(config_text, shape);
  if (config.quantization.quantizes_anything()) {
    throw Error(ErrorCode::kUnsupported, "{}: the config of a float model is wanted", shape);
  }
  std::string description;
  if (scheme != LinearScheme::kFloat) {
    description = describe_scheme(config, scheme);
    std::vector<std::string> unused;
    config.quantization = Quantization::from_description(description, kDescriptionName, unused);
  }
  std::vector<TensorSpec> tensors;
  for (const ExpectedTensor& expected : expected_tensors(config)) {
    if (expected.required) tensors.push_back({expected.name, hollow_dtype(expected), expected.shape});
  }
  uint64_t written = 0;
  for (const TensorSpec& tensor : tensors) written += is_hollow(tensor) ? 0 : tensor.bytes();
  prepare_model_directory(directory, written);
  SafetensorsWriter writer(directory / "model.safetensors", tensors);
  check_model_directory(directory, 0);  // as above
  for (const TensorSpec& tensor : tensors) {
    if (is_hollow(tensor)) {
      writer.leave_empty(tensor.name);
    } else {
      writer.write(tensor.name, plain_values(tensor));
    }
  }
  writer.finish();
  if (!description.empty()) write_small_file(directory / kDescriptionName, description);
  write_configs(shape, config_text, directory);
}

}  // namespace reprise::load
