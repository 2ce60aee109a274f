#include "cli/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace reprise::cli {
namespace {

volatile std::sig_atomic_t received = 0;
volatile std::sig_atomic_t alarm_seconds = 0;

void on_signal(int signal) {
  received = 1;
  std::signal(signal, SIG_DFL);
  if (alarm_seconds > 0) ::alarm(static_cast<unsigned>(alarm_seconds));
}

void on_alarm(int /*signal*/) {
  constexpr std::string_view kMessage = "\nerror: interrupted; what was running did not come to an end\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(exit_code(ErrorCode::kCancelled));
}

/// A flag alone would come too late for a wait that is about to begin.
int interrupt_pipe[2] = {-1, -1};

void on_interrupt(int /*signal*/) {
  const int error = errno;
  [[maybe_unused]] const ssize_t ignored = ::write(interrupt_pipe[1], "", 1);  // a full pipe tells as much
  errno = error;
}

}  // namespace

void watch_interrupts(unsigned most_seconds) {
  alarm_seconds = static_cast<std::sig_atomic_t>(most_seconds);
  std::signal(SIGALRM, on_alarm);
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

unsigned seconds_to_end(const device::Device& device) { return device.capabilities().shares_host_cores ? 0 : 3; }

bool interrupted() { return received != 0; }

void end_interrupt_limit() {
  alarm_seconds = 0;
  ::alarm(0);
}

void collect_interrupts() {
  if (interrupt_pipe[0] < 0 && ::pipe2(interrupt_pipe, O_NONBLOCK | O_CLOEXEC) != 0) {
    throw Error(ErrorCode::kIo, "cannot make a pipe: {}", std::strerror(errno));
  }
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
}

bool take_interrupt() {
  char bytes[64];
  bool came = false;
  while (::read(interrupt_pipe[0], bytes, sizeof(bytes)) > 0) came = true;
  return came;
}

int interrupt_descriptor() { return interrupt_pipe[0]; }

}  // namespace reprise::cli
