#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/session.h"
#include "graph/dot.h"
#include "graph/text_writer.h"

namespace reprise::cli {
namespace {

struct GraphOptions {
  SessionOptions session;
  bool dot = false;
  int32_t program = 0;
  int32_t batch = 32;
};

int run_graph(const GraphOptions& options) {
  // Drawing needs shapes only; a captured program names addresses, so it needs the weights.
  Session session(options.session, options.program == 0);
  const int32_t batch = options.program > 0 ? options.program : options.batch;
  const int32_t context = static_cast<int32_t>(std::min<int64_t>(session.model()->info().max_positions, 2048));
  const auto engine = session.make_engine(std::nullopt, batch, context, context);
  replay::GraphRunner& runner = engine->runner();
  if (options.program > 0) {
    write_output(runner.program_text(options.program));
  } else {
    write_output(options.dot ? graph::to_dot(runner.decode_graph()) : graph::to_text(runner.decode_graph()));
  }
  return 0;
}

}  // namespace

void add_graph(CommandLine& program) {
  CommandLine& command = program.command("graph", "Show the graph of a model's decode step");
  const auto options = std::make_shared<GraphOptions>();
  options->session.add_model(command);
  command.flag("--dot", options->dot, "as a Graphviz drawing");
  command.option("--program", options->program, "the captured program for this batch size instead");
  command.option("--batch", options->batch, "largest batch that the graph is traced for");
  options->session.add_device(command);
  options->session.add_engine(command);
  options->session.add_graph(command);
  command.on_run([options] { return run_graph(*options); });
}

}  // namespace reprise::cli
