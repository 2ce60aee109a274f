#include <fcntl.h>

#include <csignal>

#include "cli/commands.h"

namespace {

/// A standard stream that the caller closed would lend its number to the next file that is opened, and messages would
/// go into it. These stand-ins fail for reading and writing, as a closed stream does.
void occupy_closed_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    // The lowest free number is taken, which is this one: those before it are open by now.
    if (::fcntl(stream, F_GETFD) < 0) [[maybe_unused]]
      const int ignored = ::open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace reprise::cli;
  occupy_closed_standard_streams();
  // A file that may not grow is an error of its write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  CommandLine program("reprise", "Runs large language models by replaying their captured decode step.");
  program.version("reprise " REPRISE_VERSION);
  add_generate(program);
  add_chat(program);
  add_render(program);
  add_logits(program);
  add_tokenize(program);
  add_synth(program);
  add_quantize(program);
  add_graph(program);
  add_compile(program);
  add_eval(program);
  add_bench(program);
  add_serve(program);
  add_devices(program);
  program.footer(
      "Exit codes: 0 success, 1 internal error, 2 bad argument or unsupported request, 3 missing, unreadable or "
      "corrupt\n"
      "file, 4 out of memory or another resource, 130 interrupted.\n"
      "Environment: REPRISE_LOG=debug|info|warning|error|off, REPRISE_CPU_ISA=portable|avx2|avx512|avx512_bf16,\n"
      "REPRISE_DEBUG_DIR=DIRECTORY (graphs after every pass and captured programs), REPRISE_DEVICE (what --device "
      "auto\n"
      "takes), REPRISE_DEVICE_WAIT_SECONDS (longest wait for a device other than the CPU).");
  return program.run(argc, argv);
}
