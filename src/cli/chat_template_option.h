#pragma once

#include <filesystem>
#include <string>

#include "cli/command_line.h"
#include "text/chat_template.h"

namespace reprise::cli {

/// Where a command finds a model's chat template.
struct ChatTemplateOption {
  std::string file;

  /// Adds --template.
  void add(CommandLine& command);
  /// kUnsupported when the model has none and no file is given.
  text::ChatTemplate load(const std::filesystem::path& directory) const;
  /// Refuses tools and variables that the template does not read: setting them would change nothing.
  static void check_reads(const text::ChatTemplate& chat_template, const text::ChatRequest& request);
};

}  // namespace reprise::cli
