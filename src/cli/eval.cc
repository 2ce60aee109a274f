#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "api/devices.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/eval_gsm8k.h"
#include "cli/input.h"
#include "cli/statement.h"
#include "client/generation.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

void report(const EvalOptions& options, const Gsm8kScore& score, engine::Engine& engine, Session& session) {
  if (options.json) {
    Json json{{"task", "gsm8k"}, {"shots", options.shots}, {"parallel", engine.options().max_running}};
    json.update(Json::parse(score.json()));
    json["statement"] = Json::parse(statement_json(engine, session.autotune_report()));
    return write_output(json.dump() + "\n");
  }
  write_output(score.text());
  write_message(
      fmt::format("\n{}\n{}", api::describe(session.device()), statement_text(engine, session.autotune_report())));
}

int run_gsm8k_here(const EvalOptions& options) {
  const Gsm8kQuestions questions(options);
  // Before the model is loaded: a path that cannot be written should not cost an evaluation.
  std::optional<OutputFile> output;
  if (!options.output_file.empty()) output.emplace(options.output_file);
  Session session(options.session);
  Gsm8kRun run(options, session, questions);
  run.answer();
  report(options, score_answers(questions, run.answers(), run.seconds()), run.engine(), session);
  if (output) questions.write(*output, run.answers());
  return 0;
}

void apply_recipe(EvalOptions& options) {
  const std::optional<RecipeConfig> file = options.recipe.apply(
      options.session, {"model_config.output_path", "scheduler_config.batch_size", "scheduler_config.max_new_tokens"});
  if (!file) return;
  options.recipe.set("--parallel", options.parallel, file->batch_size);
  options.recipe.set("--max-new-tokens", options.max_new_tokens, file->max_new_tokens);
  if (!file->output_path.empty())
    options.recipe.set("--out", options.output_file, RecipeOption::output_file(*file, "gsm8k.jsonl"));
}

/// Options that have no effect where the answers come from are refused.
void check_place(const EvalOptions& options) {
  static const std::set<std::string> both = {"--data",           "--num-shots", "--num-questions", "--parallel",
                                             "--max-new-tokens", "--out",       "--json"};
  static const std::set<std::string> server = {"--base-url", "--backend", "--api-key", "--timeout"};
  const bool asks_server = !options.server.base_url.empty();
  for (const std::string& name : options.command->given_names()) {
    if (both.contains(name) || server.contains(name) == asks_server) continue;
    throw Error(ErrorCode::kInvalidArgument, "{} has no effect {} --base-url", name, asks_server ? "with" : "without");
  }
  if (options.compare_modes && options.command->given("--mode")) {
    throw Error(ErrorCode::kInvalidArgument, "--compare-modes asks in several modes; --mode has no effect");
  }
}

int run_gsm8k(EvalOptions& options) {
  check_place(options);
  const bool asks_server = !options.server.base_url.empty();
  // A recipe, and the demand for a model, are of models that run here.
  if (!asks_server) apply_recipe(options);
  const auto require = [](const char* name, int32_t value, int32_t least) {
    if (value < least) throw Error(ErrorCode::kInvalidArgument, "{} is {}, must be at least {}", name, value, least);
  };
  require("--num-shots", options.shots, 0);
  require("--num-questions", options.questions, 1);
  require("--parallel", options.parallel, 1);
  require("--max-new-tokens", options.max_new_tokens, 1);
  if (!options.compare_modes && !options.quantized.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--quantized is '{}', but no modes are compared", options.quantized)
        .remedy("add --compare-modes");
  }
  if (asks_server) return run_gsm8k_server(options);
  return options.compare_modes ? run_gsm8k_modes(options) : run_gsm8k_here(options);
}

}  // namespace

void add_eval(CommandLine& program) {
  CommandLine& eval = program.command("eval", "Measure how well a model answers");
  CommandLine& command = eval.command("gsm8k", "Grade-school arithmetic problems, few-shot, greedy");
  const auto options = std::make_shared<EvalOptions>();
  options->command = &command;
  options->session.add_model(command, false);
  options->recipe.add(command);
  command.option("--data", options->data_file, "file with one problem {\"question\", \"answer\"} a line");
  command.required();
  command.option("--num-shots", options->shots, "solved problems in front of each question: the first of the file");
  command.option("--num-questions", options->questions, "how many to ask, from the first on (the examples as well)");
  command.option("--parallel", options->parallel, "most questions that run at a time");
  command.option("--max-new-tokens", options->max_new_tokens, "most tokens of an answer");
  command.option("--out", options->output_file, "write the answers: one JSON object a line");
  command.flag("--json", options->json, "print the result as one JSON object");
  command.flag("--compare-modes", options->compare_modes,
               "ask everything in the modes eager, full and piecewise, and print a table");
  command.option("--quantized", options->quantized, "with --compare-modes: the model with int8 weights, a line more");
  options->server.add_optional(command);
  command.choice("--backend", options->backend, client::backend_names(), "the interface of the server of --base-url");
  options->session.add_device(command);
  options->session.add_engine(command);
  options->session.add_graph(command);
  options->session.add_profile(command);
  command.footer(
      "An answer is right when the last number in it is that of the file. Form and scoring are those of SGLang's\n"
      "few_shot_gsm8k, so that numbers can be compared. With --base-url a running server is asked, over plain HTTP.");
  command.on_run([options] { return run_gsm8k(*options); });
}

}  // namespace reprise::cli
