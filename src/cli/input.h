#pragma once

#include <string>
#include <string_view>

namespace reprise::cli {

/// All of standard input.
std::string read_standard_input();
/// Writes to standard output and flushes; throws kIo when the reader is gone or the disk is full.
void write_output(const std::string& text);

/// Writes to standard error. What cannot be written there is lost: nobody could be told.
void write_message(std::string_view text) noexcept;

}  // namespace reprise::cli
