#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command_line.h"
#include "engine/sampling_parameters.h"
#include "load/generation_config.h"

namespace reprise::cli {

/// How tokens are chosen: options of commands that produce text. Where the user says nothing, the model's
/// generation_config.json counts.
struct SamplingOptions {
  engine::SamplingParameters parameters;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k, max_new_tokens;

  /// `max_new_help`: what --max-new-tokens limits, and its default.
  void add(CommandLine& command, const std::string& max_new_help);
  /// Throws kInvalidArgument for values out of range, before a model is loaded.
  void check() const;
  /// Fills in `parameters`. What the user did not give is as in Hugging Face's generate(): the most likely token unless
  /// the file says do_sample, or the user asks for a filter that only sampling has.
  void apply(const load::GenerationConfig& config);
};

}  // namespace reprise::cli
