#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "load/model_config.h"

namespace reprise::load {

/// What a generation_config.json recommends for sampling. Absent and null values are left open.
struct GenerationConfig {
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> pad_token_id;
  std::optional<bool> do_sample;
  std::optional<double> temperature;  ///< >= 0
  std::optional<int64_t> top_k;       ///< 0 or -1: off
  std::optional<double> top_p;        ///< 0 to 1
  std::optional<double> min_p;        ///< 0 to 1
  std::optional<double> repetition_penalty;
  std::optional<int64_t> max_new_tokens;
  std::vector<std::string> unused_keys;  ///< the caller logs them once

  /// Throws kCorruptData, naming key and value.
  static GenerationConfig parse(std::string_view json, const std::string& what = "generation_config.json");
  /// Reads the file of a model directory; without one everything is left open.
  static GenerationConfig load(const std::filesystem::path& directory);
};

/// The tokens that end a text: those of the generation config when it names any, else those of the model's.
std::vector<int32_t> end_tokens(const ModelConfig& model, const GenerationConfig& generation);

}  // namespace reprise::load
