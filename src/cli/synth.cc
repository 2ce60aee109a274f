#include <memory>

#include "base/error.h"
#include "base/progress_bar.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "load/synthesize.h"
#include "text/tokenizer.h"

namespace reprise::cli {

void add_synth(CommandLine& program) {
  CommandLine& command = program.command("synth", "Write a random checkpoint of a real model's shape, for measuring");
  struct Options {
    std::string shape, output, tokenizer;
    uint64_t seed = 0;
  };
  const auto options = std::make_shared<Options>();
  command.option("shape", options->shape,
                 "qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b, qwen3-moe-small, or a config.json");
  command.required();
  command.option("output", options->output, "directory to write");
  command.required();
  command.option("--seed", options->seed, "of the random weights");
  command.option("--tokenizer", options->tokenizer,
                 "directory with a tokenizer.json, which is copied: without one a model cannot be served. It may have "
                 "fewer ids than the model, of which those beyond have no text");
  command.on_run([options] {
    ProgressBar bar;
    load::SynthesisOptions synthesis;
    synthesis.seed = options->seed;
    if (!options->tokenizer.empty()) {
      synthesis.tokenizer = options->tokenizer;
      synthesis.tokenizer_ids = text::load_tokenizer(options->tokenizer).vocabulary_size();
    }
    watch_interrupts();
    synthesis.progress = [&](uint64_t done, uint64_t total) {
      // Thrown, so that the writer takes its unfinished file away.
      if (interrupted()) throw Error(ErrorCode::kCancelled, "interrupted: {} is not written", options->output);
      bar.update(static_cast<double>(done), static_cast<double>(total), "Writing " + options->shape);
    };
    load::synthesize_checkpoint(options->shape, options->output, synthesis);
    bar.finish();
    write_message(fmt::format("{}: written\n", options->output));
    return 0;
  });
}

}  // namespace reprise::cli
