#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "compile/compile_options.h"

namespace reprise::cli {

/// What a file in the YAML form of cann-recipes-infer asks for, in Reprise's terms. Defaults are those of the recipes.
/// Keys that Reprise can only obey in one way (one device, no custom kernels ...) are checked and not kept.
struct RecipeConfig {
  std::string name;  ///< of the file, for messages

  // data_config
  std::string dataset_path;  ///< directory with default_prompt.json; "": none
  int32_t input_truncated_len = 256;
  double temperature = 0;
  double top_p = 1;
  int32_t top_k = 0;
  std::optional<uint64_t> seed;

  // model_config
  std::string model_path;
  std::string output_path;
  std::string dtype = "bfloat16";
  std::string mode = "eager";  ///< exe_mode, as --mode names it
  /// False: decode steps have one static size, the batch size, instead of several.
  bool enable_dynamic_graph = true;

  // scheduler_config
  int32_t batch_size = 1;
  int32_t max_new_tokens = 32;
  int32_t max_prefill_tokens = 256;  ///< filled in: batch_size prompts of input_truncated_len unless the file says more
  int32_t block_size = 128;

  // compile_options: Reprise's addition.
  compile::CompileOptions compile;
  std::set<std::string> named_options;  ///< those that are set

  /// Keys in the file, e.g. "data_config.seed", whose effect depends on the command.
  std::set<std::string> given;
};

/// Checks a file's text by the rules of the recipes. Errors name the file, the line, the key, its value and what is
/// allowed: kCorruptData for what is no YAML, kInvalidArgument for unknown keys (with the nearest known one), wrong
/// types and values, and contradictions; then kUnsupported for what is not built.
RecipeConfig parse_recipe(const std::string& text, const std::string& name);
/// The same for a file. kNotFound, kIo.
RecipeConfig read_recipe(const std::string& path);

}  // namespace reprise::cli
