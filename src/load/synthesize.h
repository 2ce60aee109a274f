#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "load/quantization.h"

namespace reprise::load {

struct SynthesisOptions {
  uint64_t seed = 0;
  /// Directory whose tokenizer.json, and tokenizer_config.json if there is one, are copied; empty: none.
  std::filesystem::path tokenizer;
  /// One more than its largest id: a shape with fewer is refused.
  int64_t tokenizer_ids = 0;
  /// A shard ends before the tensor that would make it larger; a single tensor may.
  uint64_t max_shard_bytes = 5'000'000'000;
  /// Called after every few megabytes with the bytes of weights written and to write.
  std::function<void(uint64_t, uint64_t)> progress;
};

/// Makes a random checkpoint of a real shape, for measuring without a download: config.json, generation_config.json and
/// bfloat16 safetensors (shards and an index above max_shard_bytes), with a tokenizer if one is given. `shape` is a
/// known shape (see load/model_shapes.h), a config.json or a directory that has one. Weights and biases are normal with
/// deviation 0.02, norms with 0.05 around 1. A value depends on the seed, the tensor's name and its index alone, not on
/// the shards. config.json is written last, so that an interrupted directory does not pass for a model. Throws
/// kNotFound for an unknown shape, kInvalidArgument when `directory` already holds a model or the tokenizer has more
/// ids than the shape, kIo (no room on the disk, for one).
void synthesize_checkpoint(const std::string& shape, const std::filesystem::path& directory,
                           const SynthesisOptions& options = {});

/// The same without numbers: weights are holes of the file, which read as zeros and take no disk; norms are 1, and the
/// scales of a quantised layer any that are valid. For what depends on shapes alone: launches and bytes on a device
/// that runs nothing. With kW8A8, layers named *.down_proj and experts keep a scale for each token, as
/// quantize_checkpoint() leaves them. Throws as synthesize_checkpoint().
void synthesize_hollow_checkpoint(const std::string& shape, const std::filesystem::path& directory,
                                  LinearScheme scheme);

}  // namespace reprise::load
