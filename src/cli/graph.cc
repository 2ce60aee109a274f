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

// More rows would only make the pages of the cache many.
constexpr int32_t kMostRows = 1 << 16;

int run_graph(GraphOptions& options) {
  if (options.program < 0 || options.program > kMostRows) {
    throw Error(ErrorCode::kInvalidArgument, "--program is {}, must be from 1 to {} (0: none)", options.program,
                kMostRows);
  }
  if (options.batch < 1 || options.batch > kMostRows) {
    throw Error(ErrorCode::kInvalidArgument, "--batch is {}, must be from 1 to {}", options.batch, kMostRows);
  }
  if (options.program > 0 && options.dot) {
    throw Error(ErrorCode::kInvalidArgument, "--dot draws the graph, not the captured --program: give one of them");
  }
  if (options.program > 0 && parse_mode(options.session.mode) != replay::Mode::kFull &&
      parse_mode(options.session.mode) != replay::Mode::kPiecewise) {
    throw Error(ErrorCode::kInvalidArgument, "--mode {} captures nothing, so there is no --program",
                options.session.mode);
  }
  const int32_t batch = options.program > 0 ? options.program : options.batch;
  // The batch that was asked for, even when it is larger than what is captured by rule.
  if (options.session.graph_batch_sizes.empty() && options.session.graph_max_batch_size == 0) {
    options.session.graph_max_batch_size = batch;
  }
  // Drawing needs shapes only; a captured program names addresses, so it needs the weights.
  Session session(options.session, options.program == 0);
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
