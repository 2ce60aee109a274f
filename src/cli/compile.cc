#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/session.h"
#include "graph/statistics.h"
#include "replay/debug_dump.h"

namespace reprise::cli {
namespace {

struct CompileOptions {
  SessionOptions session;
  bool explain = false;
};

int run_compile(CompileOptions& options) {
  if (parse_mode(options.session.mode) == replay::Mode::kEager) {
    throw Error(ErrorCode::kInvalidArgument, "--mode eager compiles nothing").remedy("use force_eager or full");
  }
  // Passes look at shapes, dtypes and which weights are one, so the weights themselves are not read.
  Session session(options.session, true);
  const int32_t context = static_cast<int32_t>(std::min<int64_t>(session.model()->info().max_positions, 2048));
  const auto engine = session.make_engine(std::nullopt, 32, context, context);
  replay::GraphRunner& runner = engine->runner();
  const std::vector<compile::PassReport>& reports = runner.decode_pass_reports();
  const int64_t before =
      reports.empty() ? static_cast<int64_t>(runner.decode_graph().order().size()) : reports.front().nodes_before;
  std::string text = fmt::format("decode: {} nodes traced, {} after {} passes\n", before,
                                 runner.decode_graph().order().size(), reports.size());
  if (options.explain) {
    text +=
        fmt::format("\n{}\n{}\n", replay::pass_table(reports), graph::statistics(runner.decode_graph()).to_string());
  }
  write_output(text);
  return 0;
}

}  // namespace

void add_compile(CommandLine& program) {
  CommandLine& command = program.command("compile", "Compile a model's decode step, and explain what the passes did");
  const auto options = std::make_shared<CompileOptions>();
  options->session.add_model(command);
  command.flag("--explain", options->explain,
               "each pass with nodes before and after, matches, time, and what it left alone and why");
  options->session.add_device(command);
  options->session.add_engine(command);
  options->session.add_graph(command);
  command.on_run([options] { return run_compile(*options); });
}

}  // namespace reprise::cli
