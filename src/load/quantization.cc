#include "load/quantization.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "load/config_reader.h"
#include "load/json.h"
#include "load/problems.h"

namespace reprise::load {
namespace {

/// Tensors of one linear layer, whose types must be one.
constexpr std::array kLinearSuffixes = {"weight",       "weight_scale", "weight_offset", "input_scale",
                                        "input_offset", "quant_bias",   "deq_scale"};

std::optional<LinearScheme> scheme_from_name(std::string_view name) {
  for (const LinearScheme scheme : {LinearScheme::kFloat, LinearScheme::kW8A8, LinearScheme::kW8A8Dynamic}) {
    if (name == name_of(scheme)) return scheme;
  }
  return std::nullopt;
}

/// Keys about more than the weights: a value that asks for anything is refused.
bool asks_for_more(const std::string& key, const nlohmann::json& value) {
  const bool known =
      key == "kv_quant_type" || key == "kv_cache_type" || key == "fa_quant_type" || key == "reduce_quant_type";
  return known && !value.is_null() && value != "" && value != "FLOAT";
}

bool asks_for_no_groups(const nlohmann::json& group_size) {
  return group_size.is_null() || group_size == "" || group_size == 0 || group_size == -1;
}

void require(ConfigReader& reader, std::string_view key, bool fits, std::string_view reason) {
  if (!fits) reader.refuse(key, reason);
}

/// What compressed-tensors writes about weights and about activations alike.
void check_int8(ConfigReader& reader) {
  require(reader, "num_bits", reader.integer("num_bits", 8, 1) == 8, "8 bits are");
  require(reader, "type", reader.text("type", "int") == "int", "int is");
  require(reader, "symmetric", reader.boolean("symmetric", true), "only symmetric quantisation is");
  require(reader, "group_size", !reader.has("group_size"), "only one scale for each channel or token is");
  require(reader, "block_structure", !reader.has("block_structure"), "only one scale for each channel or token is");
  require(reader, "actorder", !reader.has("actorder"), "columns keep their order");
  for (const char* key : {"group_size", "block_structure", "actorder", "observer", "observer_kwargs"}) reader.get(key);
  for (const char* key : {"scale_dtype", "zp_dtype"}) reader.get(key);
}

void collect_unused(const ConfigReader& reader, std::vector<std::string>& unused_keys) {
  const std::vector<std::string> unused = reader.unused();
  unused_keys.insert(unused_keys.end(), unused.begin(), unused.end());
}

void check_weights(const nlohmann::json& object, const std::string& what, const std::string& prefix,
                   std::vector<std::string>& unused_keys) {
  ConfigReader reader(object, what, prefix);
  check_int8(reader);
  require(reader, "strategy", reader.text("strategy", "") == "channel", "channel is");
  reader.get("dynamic");
  collect_unused(reader, unused_keys);
}

void check_activations(const nlohmann::json& object, const std::string& what, const std::string& prefix,
                       std::vector<std::string>& unused_keys) {
  ConfigReader reader(object, what, prefix);
  check_int8(reader);
  require(reader, "strategy", reader.text("strategy", "") == "token", "token is");
  const nlohmann::json* dynamic = reader.get("dynamic");
  require(reader, "dynamic", dynamic != nullptr && *dynamic == true, "scales of tokens are found as they come");
  collect_unused(reader, unused_keys);
}

/// One group: what its scheme is, and the layers that it is for. Returns whether it is for all.
bool read_group(const nlohmann::json& object, const std::string& what, const std::string& prefix,
                std::vector<LayerPattern>& targets, std::vector<std::string>& unused_keys) {
  ConfigReader group(object, what, prefix);
  if (!group.has("weights")) group.refuse("weights", "weights and activations are quantised");
  if (!group.has("input_activations")) {
    group.refuse("input_activations", "weights alone are not quantised: activations are int8 as well");
  }
  check_weights(*group.get("weights"), what, prefix + "weights.", unused_keys);
  check_activations(*group.get("input_activations"), what, prefix + "input_activations.", unused_keys);
  if (group.has("output_activations")) group.refuse("output_activations", "outputs stay float");
  const std::string format = group.optional_text("format").value_or("int-quantized");
  if (format != "int-quantized") group.refuse("format", "int-quantized is");
  bool all = false;
  for (const std::string& target : group.texts("targets")) {
    all = all || target == "Linear";
    if (target != "Linear") targets.emplace_back(target, fmt::format("{}: {}targets", what, prefix));
  }
  group.get("output_activations");
  collect_unused(group, unused_keys);
  return all;
}

}  // namespace

std::string_view name_of(LinearScheme scheme) {
  switch (scheme) {
    case LinearScheme::kFloat:
      return "FLOAT";
    case LinearScheme::kW8A8:
      return "W8A8";
    case LinearScheme::kW8A8Dynamic:
      return "W8A8_DYNAMIC";
  }
  return "unknown";
}

Quantization Quantization::from_description(std::string_view json, const std::string& what,
                                            std::vector<std::string>& unused_keys) {
  const nlohmann::json document = parse_json(json, what);
  if (!document.is_object()) throw Error(ErrorCode::kCorruptData, "{} holds no object", what);
  Quantization result;
  result.convention_ = Convention::kModelSlim;
  result.source_ = what;
  Problems unknown;
  for (const auto& [key, value] : document.items()) {
    if (key.find('.') == std::string::npos) {
      if (asks_for_more(key, value)) unknown.add(fmt::format("{} is {}", printable(key), describe(value)));
      if (key == "group_size") {
        if (!asks_for_no_groups(value)) {
          unknown.add(fmt::format("group_size is {}, but scales are those of channels and tokens", describe(value)));
        }
        continue;
      }
      // The type of the whole model and the version of the writer: the tensors' own types say it all.
      if (key != "model_quant_type" && key != "version") unused_keys.push_back(printable(key));
      continue;
    }
    const auto scheme = value.is_string() ? scheme_from_name(value.get_ref<const std::string&>()) : std::nullopt;
    if (!scheme) {
      unknown.add(fmt::format("{} is {}", printable(key), describe(value)));
    } else {
      result.tensors_.emplace(key, *scheme);
    }
  }
  unknown.throw_if_any(ErrorCode::kUnsupported, fmt::format("{}: known are FLOAT, W8A8 and W8A8_DYNAMIC", what));

  Problems problems;
  for (const auto& [name, scheme] : result.tensors_) {
    const size_t point = name.rfind('.');
    const std::string suffix = name.substr(point + 1);
    if (std::ranges::find(kLinearSuffixes, suffix) == kLinearSuffixes.end()) continue;
    const auto weight = result.tensors_.find(name.substr(0, point) + ".weight");
    if (weight == result.tensors_.end()) {
      problems.add(fmt::format("{} is described, its weight is not", printable(name)));
    } else if (weight->second != scheme) {
      problems.add(
          fmt::format("{} is {}, its weight is {}", printable(name), name_of(scheme), name_of(weight->second)));
    }
  }
  problems.throw_if_any(ErrorCode::kCorruptData, what);
  return result;
}

Quantization Quantization::from_compressed_tensors(const nlohmann::json& config, const std::string& what,
                                                   std::vector<std::string>& unused_keys) {
  const std::string key = "quantization_config";
  ConfigReader reader(config, what, key + ".");
  require(reader, "quant_method", reader.text("quant_method", "") == "compressed-tensors", "compressed-tensors is");
  require(reader, "format", reader.text("format", "int-quantized") == "int-quantized", "int-quantized is");
  const std::string status = reader.optional_text("quantization_status").value_or("compressed");
  require(reader, "quantization_status", status == "compressed", "compressed is");
  for (const char* unknown : {"kv_cache_scheme", "sparsity_config", "transform_config"}) {
    const nlohmann::json* value = reader.get(unknown);
    require(reader, unknown, value == nullptr || value->is_null() || (value->is_object() && value->empty()),
            "only linear layers are quantised");
  }
  for (const char* harmless : {"global_compression_ratio", "version", "packed_modules_mapping"}) reader.get(harmless);

  Quantization result;
  result.convention_ = Convention::kCompressedTensors;
  result.source_ = fmt::format("{}: {}", what, key);
  const nlohmann::json* groups = reader.get("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty()) reader.fail("config_groups", "a group of layers");
  for (const auto& [name, group] : groups->items()) {
    const std::string prefix = fmt::format("{}.config_groups.{}.", key, printable(name, 40));
    const bool all = read_group(group, what, prefix, result.targets_, unused_keys);
    result.targets_all_ = result.targets_all_ || all;
  }
  for (const std::string& ignored : reader.texts("ignore")) {
    result.ignored_.emplace_back(ignored, fmt::format("{}: {}.ignore", what, key));
  }
  collect_unused(reader, unused_keys);
  return result;
}

LinearScheme Quantization::scheme_of(std::string_view layer) const {
  const auto matches = [layer](const LayerPattern& pattern) { return pattern.matches(layer); };
  switch (convention_) {
    case Convention::kNone:
      break;
    case Convention::kCompressedTensors:
      if (std::ranges::any_of(ignored_, matches)) break;
      if (targets_all_ || std::ranges::any_of(targets_, matches)) return LinearScheme::kW8A8Dynamic;
      break;
    case Convention::kModelSlim: {
      const auto place = tensors_.find(fmt::format("{}.weight", layer));
      if (place == tensors_.end()) {
        throw Error(ErrorCode::kCorruptData, "{} says nothing of {}.weight", source_, layer);
      }
      return place->second;
    }
  }
  return LinearScheme::kFloat;
}

bool Quantization::targets_by_name(std::string_view layer) const {
  const auto matches = [layer](const LayerPattern& pattern) { return pattern.matches(layer); };
  return std::ranges::any_of(targets_, matches) && !std::ranges::any_of(ignored_, matches);
}

bool Quantization::describes(std::string_view tensor) const { return tensors_.find(tensor) != tensors_.end(); }

std::vector<std::string> Quantization::described_layers() const {
  std::vector<std::string> layers;
  constexpr std::string_view kWeight = ".weight";
  for (const auto& [name, scheme] : tensors_) {
    if (scheme != LinearScheme::kFloat && name.ends_with(kWeight)) {
      layers.push_back(name.substr(0, name.size() - kWeight.size()));
    }
  }
  return layers;
}

}  // namespace reprise::load
