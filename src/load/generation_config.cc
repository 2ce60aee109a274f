#include "load/generation_config.h"

#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "load/config_reader.h"
#include "load/json.h"

namespace reprise::load {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 20;

std::optional<int32_t> token(ConfigReader& reader, std::string_view key) {
  const std::optional<int64_t> id = reader.optional_integer(key, 0);
  return id ? std::optional(static_cast<int32_t>(*id)) : std::nullopt;
}

}  // namespace

GenerationConfig GenerationConfig::parse(std::string_view json, const std::string& what) {
  const nlohmann::json document = parse_json(json, what);
  ConfigReader reader(document, what);
  GenerationConfig config;
  config.eos_token_ids = reader.integers("eos_token_id", 0);
  config.bos_token_id = token(reader, "bos_token_id");
  config.pad_token_id = token(reader, "pad_token_id");
  config.do_sample = reader.optional_boolean("do_sample");
  config.temperature = reader.optional_number("temperature", 0.0);
  config.top_k = reader.optional_integer("top_k", -1);
  config.top_p = reader.optional_number("top_p", 0.0, 1.0);
  config.min_p = reader.optional_number("min_p", 0.0, 1.0);
  config.repetition_penalty = reader.optional_number("repetition_penalty", std::numeric_limits<double>::min());
  config.max_new_tokens = reader.optional_integer("max_new_tokens", 0);
  for (const char* key : {"transformers_version", "_from_model_config", "use_cache", "trust_remote_code"}) {
    reader.get(key);
  }
  config.unused_keys = reader.unused();
  return config;
}

GenerationConfig GenerationConfig::load(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "generation_config.json";
  if (!std::filesystem::exists(file)) return {};
  return parse(read_file(file, kMaxBytes), file.string());
}

std::vector<int32_t> end_tokens(const ModelConfig& model, const GenerationConfig& generation) {
  return generation.eos_token_ids.empty() ? model.eos_token_ids : generation.eos_token_ids;
}

}  // namespace reprise::load
