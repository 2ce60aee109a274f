#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "cli/command_line.h"
#include "cli/recipe_config.h"
#include "cli/session.h"

namespace reprise::cli {

/// The option --config of a command, and what the file changes there. A value on the command line wins over the file's.
class RecipeOption {
 public:
  /// Adds --config. `command` must outlive the option.
  void add(CommandLine& command);

  /// Reads the file and sets the session's options by it; absent without --config. `used`: the keys beyond those of the
  /// session that the command looks at; others in the file are logged as being without effect. Throws what
  /// read_recipe() throws, and kInvalidArgument when neither file nor command line name a model.
  std::optional<RecipeConfig> apply(SessionOptions& session, std::initializer_list<const char*> used) const;

  /// Sets a variable to the file's value unless the command line has set the option that is bound to it.
  template <typename Target, typename Value>
  void set(const char* option, Target& target, const Value& value) const {
    if (!command_->given(option)) target = value;
  }

  /// A file in the recipe's output_path, which is made if it is not there. kIo.
  static std::string output_file(const RecipeConfig& recipe, const char* name);

 private:
  std::string path_;
  const CommandLine* command_ = nullptr;
};

}  // namespace reprise::cli
