#include "load/quantize_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "load/check_tensors.h"
#include "load/convert.h"
#include "load/json.h"
#include "load/output_directory.h"
#include "load/quantized_tensors.h"
#include "load/safetensors_writer.h"

namespace reprise::load {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHead = "lm_head";
/// What a model needs beside its weights.
constexpr const char* kCompanions[] = {
    "generation_config.json",  "tokenizer.json",    "tokenizer_config.json", "vocab.json", "merges.txt",
    "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"};

/// How the input of a static layer becomes int8: q = round(x / scale) + offset.
struct InputScale {
  float scale = 1;
  int32_t offset = 0;
};

/// All of the range, and zero, between -128 and 127.
InputScale input_scale_of(const ActivationRange& range) {
  const float least = std::min(range.least, 0.0f);
  const float largest = std::max(range.largest, 0.0f);
  if (largest == least) return {};
  const float scale = (largest - least) / 255.0f;
  const float offset = std::nearbyint(-128.0f - least / scale);
  return {scale, static_cast<int32_t>(std::clamp(offset, -128.0f, 127.0f))};
}

/// Rows of a weight as int8, one at a time, and how far they are from the float ones.
class RowQuantizer {
 public:
  explicit RowQuantizer(const StoredTensor& weight)
      : weight_(weight),
        columns_(static_cast<size_t>(weight.shape.size(1))),
        row_bytes_(columns_ * size_of(weight.dtype)),
        floats_(columns_),
        values_(columns_) {}

  /// Returns the row's scale: one for a row of zeros.
  float quantize(size_t row) {
    convert_to_float(weight_.dtype, weight_.bytes.subspan(row * row_bytes_, row_bytes_), floats_);
    float largest = 0;
    for (const float value : floats_) {
      if (!std::isfinite(value)) {
        throw Error(ErrorCode::kCorruptData, "{} holds {} in row {}", printable(weight_.name), value, row);
      }
      largest = std::max(largest, std::abs(value));
    }
    // Below that the reciprocal overflows.
    const float scale = largest < 1e-30f ? 1.0f : largest / 127.0f;
    sum_ = 0;
    for (size_t i = 0; i < columns_; ++i) {
      const float rounded = std::nearbyint(floats_[i] / scale);
      values_[i] = static_cast<int8_t>(std::clamp(rounded, -127.0f, 127.0f));
      sum_ += values_[i];
      compare(floats_[i], static_cast<double>(values_[i]) * scale);
    }
    return scale;
  }

  std::span<const int8_t> values() const { return values_; }
  int32_t sum() const { return sum_; }
  double cosine() const {
    return squares_ == 0 || other_squares_ == 0 ? 1 : dot_ / std::sqrt(squares_ * other_squares_);
  }
  double largest_difference() const { return largest_; }

 private:
  void compare(double exact, double restored) {
    dot_ += exact * restored;
    squares_ += exact * exact;
    other_squares_ += restored * restored;
    largest_ = std::max(largest_, std::abs(exact - restored));
  }

  const StoredTensor& weight_;
  size_t columns_;
  size_t row_bytes_;
  std::vector<float> floats_;
  std::vector<int8_t> values_;
  int32_t sum_ = 0;
  double dot_ = 0, squares_ = 0, other_squares_ = 0, largest_ = 0;
};

class CheckpointQuantizer {
 public:
  CheckpointQuantizer(const std::filesystem::path& model, const QuantizeOptions& options)
      : options_(options), directory_(model_directory(model)), config_(ModelConfig::load(directory_)) {
    if (config_.quantization.quantizes_anything()) {
      throw Error(ErrorCode::kInvalidArgument, "{} quantises the model already", config_.quantization.source());
    }
    if (options.scheme == LinearScheme::kFloat || options.convention == Quantization::Convention::kNone) {
      throw Error(ErrorCode::kInvalidArgument, "a scheme and a convention must be chosen");
    }
    if (options.scheme == LinearScheme::kW8A8 && options.convention == Quantization::Convention::kCompressedTensors) {
      throw Error(ErrorCode::kInvalidArgument, "compressed-tensors is written with a scale for each token only")
          .remedy("choose the scheme w8a8-dynamic, or msmodelslim's convention");
    }
    choose_layers();
  }

  std::vector<std::string> static_layers() const {
    std::vector<std::string> layers;
    for (const auto& [layer, scheme] : schemes_) {
      if (scheme == LinearScheme::kW8A8) layers.push_back(layer);
    }
    return layers;
  }

  void check(const std::filesystem::path& model, const std::filesystem::path& output) {
    const Checkpoint checkpoint = Checkpoint::open(model);
    check_tensors(checkpoint, expected_tensors(config_));
    const std::vector<TensorSpec> specs = plan(checkpoint);
    check_loads(output, specs);
    check_model_directory(output, total_bytes(specs));
  }

  std::vector<LayerError> write(const std::filesystem::path& model, const std::filesystem::path& output) {
    const Checkpoint checkpoint = Checkpoint::open(model);
    check_tensors(checkpoint, expected_tensors(config_));
    for (const std::string& layer : static_layers()) {
      if (!options_.ranges.contains(layer)) {
        throw Error(ErrorCode::kInvalidArgument, "there is no range for the input of {}", layer);
      }
    }
    checkpoint_ = &checkpoint;
    const std::vector<TensorSpec> specs = plan(checkpoint);
    check_loads(output, specs);
    prepare_model_directory(output, total_bytes(specs));
    SafetensorsWriter writer(output / "model.safetensors", specs);
    // Another may have finished one between that look and the writer's lock.
    check_model_directory(output, 0);
    writer_ = &writer;
    total_ = checkpoint.total_bytes();
    for (const StoredTensor& tensor : checkpoint.tensors()) write_tensor(tensor);
    if (tied_head_ != nullptr) quantize_layer(kHead, *tied_head_, nullptr);
    writer.finish();
    write_companions(output, specs);
    return std::move(errors_);
  }

 private:
  static uint64_t total_bytes(const std::vector<TensorSpec>& specs) {
    uint64_t bytes = 0;
    for (const TensorSpec& spec : specs) bytes += spec.bytes();
    return bytes;
  }

  void choose_layers() {
    std::vector<LayerPattern> ignored;
    std::vector<bool> used;
    for (const std::string& expression : options_.ignore) {
      ignored.emplace_back(expression.starts_with("re:") ? expression : "re:" + expression, "--ignore");
      used.push_back(false);
    }
    std::vector<std::string> layers = linear_layers(config_);
    if (options_.head) layers.emplace_back(kHead);
    for (const std::string& layer : layers) {
      bool stays = false;
      for (size_t i = 0; i < ignored.size(); ++i) {
        if (!ignored[i].matches(layer)) continue;
        stays = true;
        used[i] = true;
      }
      if (stays) continue;
      const bool dynamic = options_.scheme == LinearScheme::kW8A8Dynamic || layer == kHead ||
                           layer.ends_with("down_proj") || layer.find(".mlp.experts.") != std::string::npos;
      schemes_.emplace(layer, dynamic ? LinearScheme::kW8A8Dynamic : LinearScheme::kW8A8);
    }
    const auto unused = std::find(used.begin(), used.end(), false);
    if (unused != used.end()) {
      throw Error(ErrorCode::kInvalidArgument, "no layer matches {} from its beginning",
                  printable(options_.ignore[static_cast<size_t>(unused - used.begin())]))
          .remedy("names are such as model.layers.0.mlp.down_proj");
    }
    if (schemes_.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "no layer is left to quantise: --ignore matches all of them");
    }
    check_groups();
  }

  /// Layers that are computed together must stay together.
  void check_groups() const {
    ModelConfig quantized = config_;
    std::vector<std::string> unused_keys;
    quantized.quantization = Quantization::from_description(description({}), "the choice of layers", unused_keys);
    try {
      check_quantization(quantized);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCorruptData) throw;
      throw Error(ErrorCode::kInvalidArgument, "{}", error.message()).remedy("let --ignore name all of them, or none");
    }
  }

  LinearScheme scheme_of(const std::string& layer) const {
    const auto place = schemes_.find(layer);
    return place == schemes_.end() ? LinearScheme::kFloat : place->second;
  }

  /// The layer whose weight or bias a tensor is, "" for others.
  std::string layer_of(const std::string& tensor) const {
    const std::string layer = tensor.substr(0, tensor.rfind('.'));
    return scheme_of(layer) == LinearScheme::kFloat ? "" : layer;
  }

  std::vector<TensorSpec> plan(const Checkpoint& checkpoint) {
    std::vector<TensorSpec> specs;
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      const std::string layer = layer_of(tensor.name);
      if (layer.empty()) {
        specs.push_back({tensor.name, tensor.dtype, tensor.shape});
      } else if (tensor.name.ends_with(".weight")) {
        add_specs(specs, layer, tensor.shape);
      } else if (scheme_of(layer) == LinearScheme::kW8A8Dynamic) {
        specs.push_back({tensor.name, tensor.dtype, tensor.shape});
      }
    }
    if (scheme_of(kHead) != LinearScheme::kFloat && checkpoint.find("lm_head.weight") == nullptr) {
      tied_head_ = &checkpoint.at("model.embed_tokens.weight");
      add_specs(specs, kHead, tied_head_->shape);
    }
    return specs;
  }

  void add_specs(std::vector<TensorSpec>& specs, const std::string& layer, const Shape& shape) {
    const Dim outputs = shape[0];
    specs.push_back({layer + ".weight", DType::kI8, shape});
    specs.push_back({layer + ".weight_scale", DType::kF32, Shape{outputs, 1}});
    if (options_.convention == Quantization::Convention::kModelSlim) {
      specs.push_back({layer + ".weight_offset", DType::kF32, Shape{outputs, 1}});
    }
    if (scheme_of(layer) != LinearScheme::kW8A8) return;
    specs.push_back({layer + ".input_scale", DType::kF32, Shape{1}});
    specs.push_back({layer + ".input_offset", DType::kF32, Shape{1}});
    specs.push_back({layer + ".deq_scale", DType::kF32, Shape{outputs}});
    specs.push_back({layer + ".quant_bias", DType::kI32, Shape{outputs}});
  }

  void write_tensor(const StoredTensor& tensor) {
    const std::string layer = layer_of(tensor.name);
    if (layer.empty()) {
      if (options_.progress) options_.progress(tensor.name, done_, total_);
      writer_->write(tensor.name, tensor.bytes);
    } else if (tensor.name.ends_with(".weight")) {
      quantize_layer(layer, tensor, checkpoint_->find(layer + ".bias"));
    } else if (scheme_of(layer) == LinearScheme::kW8A8Dynamic) {
      writer_->write(tensor.name, tensor.bytes);
    }
    done_ += tensor.bytes.size();
    tensor.release(tensor.bytes);
  }

  /// `bias`: of the float layer, or null.
  void quantize_layer(const std::string& layer, const StoredTensor& weight, const StoredTensor* bias) {
    if (options_.progress) options_.progress(layer, done_, total_);
    const auto outputs = static_cast<size_t>(weight.shape.size(0));
    std::vector<float> scales(outputs);
    std::vector<int32_t> sums(outputs);
    RowQuantizer rows(weight);
    for (size_t row = 0; row < outputs; ++row) {
      scales[row] = rows.quantize(row);
      sums[row] = rows.sum();
      writer_->append(layer + ".weight", std::as_bytes(rows.values()));
    }
    writer_->write(layer + ".weight_scale", std::as_bytes(std::span(scales)));
    if (options_.convention == Quantization::Convention::kModelSlim) {
      const std::vector<float> offsets(outputs);
      writer_->write(layer + ".weight_offset", std::as_bytes(std::span(offsets)));
    }
    if (scheme_of(layer) == LinearScheme::kW8A8) {
      write_static(layer, scales, sums, bias, largest_quant_bias(weight.shape.size(1)));
    }
    errors_.push_back({layer, scheme_of(layer), rows.cosine(), rows.largest_difference()});
  }

  /// y = (q w + quant_bias) * deq_scale: quant_bias takes the offset of q away, and holds the layer's bias.
  void write_static(const std::string& layer, std::span<const float> scales, std::span<const int32_t> sums,
                    const StoredTensor* bias, int64_t largest_bias) {
    const InputScale input = input_scale_of(options_.ranges.at(layer));
    const auto offset = static_cast<float>(input.offset);
    std::vector<float> bias_values(scales.size());
    if (bias != nullptr) bias_values = scale_values(*bias);
    std::vector<float> deq_scale(scales.size());
    std::vector<int32_t> quant_bias(scales.size());
    for (size_t n = 0; n < scales.size(); ++n) {
      deq_scale[n] = input.scale * scales[n];
      const double value = std::nearbyint(static_cast<double>(bias_values[n]) / deq_scale[n]) -
                           static_cast<double>(input.offset) * sums[n];
      if (!(std::abs(value) <= static_cast<double>(largest_bias))) {
        throw Error(ErrorCode::kUnsupported, "{}.bias[{}] is {}, too large for steps of {}", layer, n, bias_values[n],
                    deq_scale[n])
            .remedy("leave the layer out with --ignore, or choose w8a8-dynamic");
      }
      quant_bias[n] = static_cast<int32_t>(value);
    }
    writer_->write(layer + ".input_scale", std::as_bytes(std::span(&input.scale, 1)));
    writer_->write(layer + ".input_offset", std::as_bytes(std::span(&offset, 1)));
    writer_->write(layer + ".deq_scale", std::as_bytes(std::span(deq_scale)));
    writer_->write(layer + ".quant_bias", std::as_bytes(std::span(quant_bias)));
  }

  /// quant_model_description.json of these tensors. Without any: of the layers that a model has.
  std::string description(const std::vector<TensorSpec>& specs) const {
    Json types = Json::object();
    types["model_quant_type"] = name_of(options_.scheme);
    for (const TensorSpec& spec : specs) {
      const std::string layer = layer_of(spec.name);
      types[spec.name] = layer.empty() ? "FLOAT" : name_of(scheme_of(layer));
    }
    if (!specs.empty()) return types.dump(1) + "\n";
    for (const std::string& layer : linear_layers(config_)) types[layer + ".weight"] = name_of(scheme_of(layer));
    for (const std::string& router : router_layers(config_)) types[router + ".weight"] = "FLOAT";
    return types.dump();
  }

  /// The config of the new model, with the quantization_config that compressed-tensors writes.
  std::string new_config() const {
    const std::filesystem::path file = directory_ / "config.json";
    Json config = Json::parse(read_file(file, kMaxConfigBytes));
    // A head in int8 is a weight of its own, whether it was one before or not.
    if (scheme_of(kHead) != LinearScheme::kFloat) config["tie_word_embeddings"] = false;
    if (options_.convention != Quantization::Convention::kCompressedTensors) return config.dump(2) + "\n";
    Json ignore = Json::array();
    if (scheme_of(kHead) == LinearScheme::kFloat) ignore.push_back(kHead);
    if (config_.num_experts > 0) ignore.push_back("re:.*mlp\\.gate$");
    for (const std::string& layer : linear_layers(config_)) {
      if (scheme_of(layer) == LinearScheme::kFloat) ignore.push_back(layer);
    }
    const Json numbers = {{"num_bits", 8}, {"type", "int"}, {"symmetric", true}};
    Json weights = numbers;
    weights.update({{"strategy", "channel"}, {"dynamic", false}});
    Json activations = numbers;
    activations.update({{"strategy", "token"}, {"dynamic", true}});
    const Json group = {{"targets", {"Linear"}}, {"weights", weights}, {"input_activations", activations}};
    config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                     {"format", "int-quantized"},
                                     {"quantization_status", "compressed"},
                                     {"ignore", ignore},
                                     {"config_groups", {{"group_0", group}}}};
    return config.dump(2) + "\n";
  }

  /// That the tensors fit the config and the description that go with them, as loading will ask.
  void check_loads(const std::filesystem::path& output, const std::vector<TensorSpec>& specs) const {
    try {
      ModelConfig written = ModelConfig::parse(new_config(), "the new config.json");
      if (options_.convention == Quantization::Convention::kModelSlim) {
        written.quantization =
            Quantization::from_description(description(specs), "the new description", written.unused_keys);
      }
      check_tensors(specs, output.string(), expected_tensors(written));
    } catch (const Error& error) {
      throw Error(ErrorCode::kInternal, "the quantised model would not load: {}", error.what());
    }
  }

  /// The config comes last: without it a directory is no model.
  void write_companions(const std::filesystem::path& output, const std::vector<TensorSpec>& specs) const {
    for (const char* name : kCompanions) {
      std::error_code failure;
      if (!std::filesystem::exists(directory_ / name)) continue;
      std::filesystem::copy_file(directory_ / name, output / name, std::filesystem::copy_options::overwrite_existing,
                                 failure);
      if (failure) {
        throw Error(ErrorCode::kIo, "cannot copy {} to {}: {}", (directory_ / name).string(), output.string(),
                    failure.message());
      }
    }
    if (options_.convention == Quantization::Convention::kModelSlim) {
      write_small_file(output / "quant_model_description.json", description(specs));
    }
    write_small_file(output / "config.json", new_config());
  }

  const QuantizeOptions& options_;
  std::filesystem::path directory_;
  ModelConfig config_;
  std::map<std::string, LinearScheme> schemes_;  ///< of the layers to quantise
  const Checkpoint* checkpoint_ = nullptr;
  const StoredTensor* tied_head_ = nullptr;  ///< the embedding that a quantised head is made of
  SafetensorsWriter* writer_ = nullptr;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
  std::vector<LayerError> errors_;
};

}  // namespace

void check_quantize_checkpoint(const std::filesystem::path& model, const std::filesystem::path& output,
                               const QuantizeOptions& options) {
  CheckpointQuantizer(model, options).check(model, output);
}

std::vector<std::string> static_layers(const std::filesystem::path& model, const QuantizeOptions& options) {
  return CheckpointQuantizer(model, options).static_layers();
}

std::vector<LayerError> quantize_checkpoint(const std::filesystem::path& model, const std::filesystem::path& output,
                                            const QuantizeOptions& options) {
  return CheckpointQuantizer(model, options).write(model, output);
}

}  // namespace reprise::load
