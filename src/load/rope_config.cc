#include "load/rope_config.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "load/json.h"

namespace reprise::load {
namespace {

constexpr double kSmallest = std::numeric_limits<double>::min();

RopeType read_type(ConfigReader& rope, bool other_keys) {
  const std::optional<std::string> newer = rope.optional_text("rope_type");
  const std::optional<std::string> older = rope.optional_text("type");
  if (newer && older && *newer != *older) rope.fail("type", fmt::format("rope_type {}", printable(*newer)));
  const std::optional<std::string>& name = newer ? newer : older;
  const char* key = newer ? "rope_type" : "type";
  if (!name) {
    if (other_keys) rope.fail("rope_type", "\"default\", \"linear\" or \"yarn\"");
    return RopeType::kDefault;
  }
  if (*name == "default") return RopeType::kDefault;
  if (*name == "linear") return RopeType::kLinear;
  if (*name == "yarn") return RopeType::kYarn;
  rope.refuse(key, "known are default, linear and yarn");
}

void read_yarn(ConfigReader& rope, RopeConfig& config) {
  // Zero and null stand for the default, as in Hugging Face.
  const auto or_default = [](std::optional<double> value, double otherwise) {
    return value.value_or(0.0) == 0.0 ? otherwise : *value;
  };
  const int64_t original = rope.optional_integer("original_max_position_embeddings", 0).value_or(0);
  if (original != 0) config.original_max_position_embeddings = original;
  config.attention_factor = rope.optional_number("attention_factor", 0.0);
  config.beta_fast = or_default(rope.optional_number("beta_fast", 0.0), config.beta_fast);
  config.beta_slow = or_default(rope.optional_number("beta_slow", 0.0), config.beta_slow);
  if (config.beta_fast < config.beta_slow) {
    rope.fail("beta_fast", fmt::format("at least beta_slow ({} and {})", config.beta_fast, config.beta_slow));
  }
  config.mscale = rope.optional_number("mscale", 0.0);
  config.mscale_all_dim = rope.optional_number("mscale_all_dim", 0.0);
  config.truncate = rope.boolean("truncate", true);
  if (config.theta <= 1.0) rope.fail("rope_theta", fmt::format("above 1, as yarn needs (it is {})", config.theta));
}

/// rope_theta may stand at the top, in the object, or in both with one value.
void read_theta(ConfigReader& top, ConfigReader* rope, RopeConfig& config) {
  config.theta = top.number("rope_theta", config.theta, kSmallest);
  if (rope == nullptr) return;
  const std::optional<double> inner = rope->optional_number("rope_theta", kSmallest);
  if (!inner) return;
  if (top.has("rope_theta") && *inner != config.theta) {
    rope->fail("rope_theta", fmt::format("the rope_theta of the model, {}", config.theta));
  }
  config.theta = *inner;
}

}  // namespace

RopeConfig read_rope_config(ConfigReader& reader, int64_t max_position_embeddings, const std::string& what,
                            std::vector<std::string>& unused_keys) {
  RopeConfig config;
  config.original_max_position_embeddings = max_position_embeddings;
  const nlohmann::json* scaling = reader.get("rope_scaling");
  const nlohmann::json* parameters = reader.get("rope_parameters");
  const bool both = reader.has("rope_scaling") && reader.has("rope_parameters");
  if (both && *scaling != *parameters) reader.fail("rope_parameters", "the same as rope_scaling, which is there too");
  const bool newer = !reader.has("rope_scaling");
  const nlohmann::json* object = newer ? parameters : scaling;
  if (object == nullptr || object->is_null()) {
    read_theta(reader, nullptr, config);
    return config;
  }

  ConfigReader rope(*object, what, newer ? "rope_parameters." : "rope_scaling.");
  read_theta(reader, &rope, config);
  const size_t theta_keys = object->contains("rope_theta") ? 1 : 0;
  config.type = read_type(rope, object->size() > theta_keys);
  if (rope.optional_number("partial_rotary_factor", 0.0).value_or(1.0) != 1.0) {
    rope.refuse("partial_rotary_factor", "every dimension of a head is rotated");
  }
  if (config.type == RopeType::kDefault) {
    // Hugging Face reads nothing else for this type, except that lists mark the multimodal variant.
    for (const auto& [key, value] : object->items()) {
      if (value.is_structured()) rope.refuse(key, "it is no part of plain rotary embedding");
    }
    const std::vector<std::string> unused = rope.unused();
    unused_keys.insert(unused_keys.end(), unused.begin(), unused.end());
    return config;
  }
  if (!rope.has("factor")) rope.fail("factor", "a number");
  config.factor = rope.number("factor", 1.0, kSmallest);
  if (config.type == RopeType::kYarn) {
    if (reader.has("original_max_position_embeddings")) {
      reader.refuse("original_max_position_embeddings", "it belongs into the object of rotary parameters");
    }
    read_yarn(rope, config);
  }
  const std::vector<std::string> unknown = rope.unused();
  if (!unknown.empty()) {
    throw Error(ErrorCode::kUnsupported, "{}: {} is not known for this kind of rotary embedding", what,
                unknown.front());
  }
  return config;
}

}  // namespace reprise::load
