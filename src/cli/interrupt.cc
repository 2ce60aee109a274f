#include "cli/interrupt.h"

#include <csignal>

namespace reprise::cli {
namespace {

volatile std::sig_atomic_t received = 0;

void on_signal(int signal) {
  received = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void watch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

bool interrupted() { return received != 0; }

}  // namespace reprise::cli
