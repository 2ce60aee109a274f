#pragma once

#include <optional>
#include <string>

namespace reprise::cli {

/// Reads standard input line by line, and lets a Ctrl-C end the wait. After collect_interrupts().
class LineReader {
 public:
  enum class Outcome {
    kLine,         ///< `line` holds it, without its end
    kEnd,          ///< there is nothing more
    kInterrupted,  ///< a Ctrl-C came first, and is taken
  };

  /// Throws kIo.
  Outcome read(std::string& line);

 private:
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace reprise::cli
