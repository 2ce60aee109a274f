#pragma once

#include <string>

namespace reprise::cli {

/// All of standard input.
std::string read_standard_input();
/// Writes to standard output and flushes; throws kIo when the reader is gone or the disk is full.
void write_output(const std::string& text);

}  // namespace reprise::cli
