#include "cli/input.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace reprise::cli {

std::string read_standard_input() {
  // Else it looks as if it did nothing.
  if (::isatty(STDIN_FILENO) == 1) write_message("reading standard input up to its end (Ctrl-D)\n");
  std::string text;
  char buffer[1 << 16];
  // A terminal's end is told once: who reads on waits for another one.
  while (std::feof(stdin) == 0 && std::ferror(stdin) == 0) {
    text.append(buffer, std::fread(buffer, 1, sizeof(buffer), stdin));
  }
  if (std::ferror(stdin) != 0) throw Error(ErrorCode::kIo, "cannot read standard input: {}", std::strerror(errno));
  return text;
}

void write_output(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(ErrorCode::kIo, "cannot write to standard output: {}", std::strerror(errno));
  }
}

void write_message(std::string_view text) noexcept { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace reprise::cli
