#pragma once

#include "cli/command_line.h"

namespace reprise::cli {

/// Each adds one command of the program; its file holds the rest.
void add_generate(CommandLine& program);
void add_chat(CommandLine& program);
void add_render(CommandLine& program);
void add_logits(CommandLine& program);
void add_tokenize(CommandLine& program);
void add_synth(CommandLine& program);
void add_quantize(CommandLine& program);
void add_graph(CommandLine& program);
void add_compile(CommandLine& program);
void add_eval(CommandLine& program);
void add_bench(CommandLine& program);
void add_serve(CommandLine& program);
void add_devices(CommandLine& program);

}  // namespace reprise::cli
