#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/config_reader.h"
#include "load/model_config.h"

namespace reprise::load {

/// Reads rope_theta, rope_scaling and rope_parameters of a config.json. Types other than default, linear and yarn are
/// refused, and so are keys of the object that the type does not know. Keys that the type ignores go to `unused_keys`.
RopeConfig read_rope_config(ConfigReader& reader, int64_t max_position_embeddings, const std::string& what,
                            std::vector<std::string>& unused_keys);

}  // namespace reprise::load
