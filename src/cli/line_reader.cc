#include "cli/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "cli/interrupt.h"

namespace reprise::cli {

LineReader::Outcome LineReader::read(std::string& line) {
  size_t searched = 0;
  while (true) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || (ended_ && !buffer_.empty())) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end == std::string::npos ? end : end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return Outcome::kLine;
    }
    if (ended_) return Outcome::kEnd;
    searched = buffer_.size();
    pollfd sources[] = {{STDIN_FILENO, POLLIN, 0}, {interrupt_descriptor(), POLLIN, 0}};
    if (::poll(sources, 2, -1) < 0 && errno != EINTR) {
      throw Error(ErrorCode::kIo, "cannot wait for standard input: {}", std::strerror(errno));
    }
    if (take_interrupt()) return Outcome::kInterrupted;
    if (sources[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got > 0) {
      buffer_.append(bytes, static_cast<size_t>(got));
    } else if (got == 0) {
      ended_ = true;
    } else if (errno != EINTR) {
      throw Error(ErrorCode::kIo, "cannot read standard input: {}", std::strerror(errno));
    }
  }
}

}  // namespace reprise::cli
