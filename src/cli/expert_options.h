#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/command_line.h"
#include "cli/output_file.h"
#include "engine/engine.h"
#include "load/model_config.h"
#include "model/factory.h"

namespace reprise::cli {

/// The options of models with experts: counting what they have to do, where they lie, and moving them.
struct ExpertOptions {
  bool load = false;
  std::string load_dump;
  std::string location = "trivial";
  std::optional<int32_t> redundant;
  std::string dispatch = "static";
  int32_t ranks = 1;
  int32_t rebalance_steps = 0;

  void add(CommandLine& command);
  /// Throws kInvalidArgument, naming the option, for what the model or the other options rule out. `command`: where
  /// they were added; null: nowhere.
  void apply(const CommandLine* command, const load::ModelConfig& config, model::ModelOptions& options) const;
  /// For commands that run no step: throws kInvalidArgument, naming the option, for those that are about steps.
  void require_none_of_steps(const CommandLine* command) const;

 private:
  bool places() const { return redundant.value_or(0) > 0 || location != "trivial" || rebalance_steps > 0; }
};

/// Writes what experts had to do as JSON lines.
class ExpertLoadFile {
 public:
  /// Creates or empties the file; kIo.
  explicit ExpertLoadFile(const std::string& path) : path_(path), file_(path) {}
  /// A file that cannot be written further is left as it is, with a warning: serving goes on.
  void write(const engine::ExpertLoadWindow& window);

 private:
  std::string path_;
  OutputFile file_;
  bool failed_ = false;
};

}  // namespace reprise::cli
