#pragma once

#include <set>
#include <string>

#include "cli/command_line.h"

namespace reprise::cli {

/// A command's options as a YAML file that --config reads back, a line each: with what files and arguments say, and
/// with defaults; what is not set is null, with what that means behind it. Those in `secret` are not shown where they
/// are given, and those in `hidden` never.
std::string settings_yaml(const CommandLine& command, const std::set<std::string>& secret,
                          const std::set<std::string>& hidden);

}  // namespace reprise::cli
