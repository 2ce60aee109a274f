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
    std::string scheme = "float";
    bool hollow = false;
    uint64_t seed = 0;
  };
  const auto options = std::make_shared<Options>();
  command.option("shape", options->shape,
                 "qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b, qwen3-32b, qwen3-moe-small, or a config.json");
  command.required();
  command.option("output", options->output, "directory to write");
  command.required();
  command.option("--seed", options->seed, "of the random weights");
  command.option("--tokenizer", options->tokenizer,
                 "directory with a tokenizer.json, which is copied: without one a model cannot be served. It may have "
                 "fewer ids than the model, of which those beyond have no text");
  command.flag("--hollow", options->hollow,
               "weights are holes of the file, which take no disk and read as zeros: for `bench launches`");
  command.choice("--scheme", options->scheme, {"float", "w8a8", "w8a8-dynamic"},
                 "with --hollow: how linear layers are quantised, as by `quantize`");
  command.on_run([options] {
    if (!options->hollow && options->scheme != "float") {
      throw Error(ErrorCode::kInvalidArgument, "--scheme {} is for --hollow: random weights are float", options->scheme)
          .remedy("quantise the written model");
    }
    if (options->hollow) {
      if (!options->tokenizer.empty()) {
        throw Error(ErrorCode::kInvalidArgument, "--tokenizer does not go with --hollow: such a model has no outputs");
      }
      load::synthesize_hollow_checkpoint(options->shape, options->output,
                                         options->scheme == "float"  ? load::LinearScheme::kFloat
                                         : options->scheme == "w8a8" ? load::LinearScheme::kW8A8
                                                                     : load::LinearScheme::kW8A8Dynamic);
      write_message(fmt::format("{}: written, with holes for weights\n", options->output));
      return 0;
    }
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
