#include "cli/commands.h"

int main(int argc, char** argv) {
  using namespace reprise::cli;
  CommandLine program("reprise", "Runs large language models by replaying their captured decode step.");
  program.version("reprise " REPRISE_VERSION);
  add_generate(program);
  add_logits(program);
  add_tokenize(program);
  add_synth(program);
  add_graph(program);
  add_eval(program);
  add_bench(program);
  program.footer(
      "Exit codes: 0 success, 1 internal error, 2 bad argument or unsupported request, 3 missing, unreadable or "
      "corrupt\n"
      "file, 4 out of memory or another resource, 130 interrupted.\n"
      "Environment: REPRISE_LOG=debug|info|warning|error|off, REPRISE_CPU_ISA=portable|avx2|avx512|avx512_bf16.");
  return program.run(argc, argv);
}
