#include "cli/recipe_options.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "base/error.h"
#include "base/log.h"

namespace reprise::cli {

void RecipeOption::add(CommandLine& command) {
  command_ = &command;
  command.option("--config", path_,
                 "YAML file in the form of cann-recipes-infer, see docs/options.md; what the command line says wins");
}

std::optional<RecipeConfig> RecipeOption::apply(SessionOptions& session,
                                                std::initializer_list<const char*> used) const {
  std::optional<RecipeConfig> recipe;
  if (command_->given("--config")) recipe = read_recipe(path_);
  if (recipe) {
    set("--model", session.model, recipe->model_path);
    set("--dtype", session.dtype, recipe->dtype);
    set("--page-size", session.page_size, recipe->block_size);
    set("--max-prefill-tokens", session.max_prefill_tokens, recipe->max_prefill_tokens);
    session.compile = recipe->compile;
    session.named_options = recipe->named_options;
    if (command_->given("--mode")) {
      // It wins over exe_mode, and over the option that stands for a mode.
      session.compile.force_eager = false;
      session.named_options.erase("force_eager");
    } else {
      session.mode = recipe->mode;
    }
    std::set<std::string> idle = recipe->given;
    for (const char* key : used) idle.erase(key);
    if (recipe->mode != "eager") {
      idle.erase("model_config.enable_dynamic_graph");
      // One static graph has one size, up to which every batch is padded.
      if (!recipe->enable_dynamic_graph && !command_->given("--graph-bs")) {
        session.graph_batch_sizes = {recipe->batch_size};
      }
    }
    if (!idle.empty()) log_warning("{}: without effect here: {}", path_, fmt::join(idle, ", "));
  }
  if (session.model.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--model is required")
        .remedy("or a file of --config with model_config.model_path");
  }
  return recipe;
}

std::string RecipeOption::output_file(const RecipeConfig& recipe, const char* name) {
  std::filesystem::create_directories(recipe.output_path);
  return (std::filesystem::path(recipe.output_path) / name).string();
}

}  // namespace reprise::cli
