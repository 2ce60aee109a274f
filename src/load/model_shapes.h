#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::load {

/// The shapes that are built in: the published models "qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b", and
/// "qwen3-moe-small" (12 layers of 64 experts, 8 a token: 1.1 billion parameters).
std::vector<std::string> known_shapes();

/// The config.json of a known shape with its values; nothing for other names.
std::optional<std::string> config_of_shape(std::string_view name);

/// The generation_config.json that the published models share.
std::string generation_config_of_shapes();

}  // namespace reprise::load
