#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "cli/eval_gsm8k.h"
#include "cli/input.h"
#include "cli/watched_load.h"
#include "client/server_state.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<client::Prompt> prompts_of(const Gsm8kQuestions& questions, int32_t max_new_tokens) {
  std::vector<client::Prompt> prompts;
  for (size_t i = 0; i < questions.size(); ++i) {
    client::Prompt& prompt = prompts.emplace_back();
    prompt.text = questions.prompt(i);
    prompt.output_tokens = max_new_tokens;
  }
  return prompts;
}

/// The answers; one that failed makes the accuracy worthless, so it is an error.
std::vector<Gsm8kAnswer> answers_of(client::LoadResult& result) {
  std::vector<Gsm8kAnswer> answers;
  size_t failed = 0;
  const std::string* first = nullptr;
  for (client::RequestRecord& request : result.requests) {
    if (!request.succeeded() && failed++ == 0) first = &request.error;
    answers.push_back({std::move(request.text), request.output_tokens});
  }
  if (result.interrupted) throw Error(ErrorCode::kCancelled, "interrupted");
  if (failed > 0) {
    throw Error(ErrorCode::kIo, "{} of {} questions failed; the first one: {}", failed, answers.size(), *first);
  }
  return answers;
}

}  // namespace

int run_gsm8k_server(const EvalOptions& options) {
  const Gsm8kQuestions questions(options);
  std::optional<OutputFile> output;
  if (!options.output_file.empty()) output.emplace(options.output_file);
  const std::unique_ptr<client::HttpLoop> loop = options.server.connect();
  client::ServerState server(*loop);
  client::GenerationSettings settings;
  settings.model = server.model().value_or("default");
  settings.stop = kGsm8kStops;
  settings.incremental_text = server.info().incremental_text;
  settings.continuous_usage = false;  // no times are taken, and not every server knows it
  const client::Backend backend = client::backend_from_name(options.backend);
  const std::vector<client::Prompt> prompts = prompts_of(questions, options.max_new_tokens);
  const std::optional<client::DecodeSteps> before = server.decode_counters().steps;

  client::LoadOptions load;
  load.max_concurrency = options.parallel;
  client::LoadResult result = run_watched_load(*loop, backend, prompts, settings, load, "Answering questions");
  const std::vector<Gsm8kAnswer> answers = answers_of(result);
  const std::optional<client::DecodeSteps> after = server.decode_counters().steps;
  const std::string steps = before && after ? client::steps_text(client::difference(*after, *before)) : "";

  const Gsm8kScore score = score_answers(questions, answers, result.seconds);
  if (options.json) {
    Json json{{"task", "gsm8k"},
              {"backend", backend.name},
              {"model", settings.model},
              {"shots", options.shots},
              {"parallel", options.parallel}};
    json.update(Json::parse(score.json()));
    json["decode_steps"] = steps.empty() ? Json() : Json(steps);
    write_output(json.dump() + "\n");
  } else {
    write_output(score.text());
    write_message(fmt::format("decode steps: {}\n", steps.empty() ? "not told by the server" : steps));
  }
  if (output) questions.write(*output, answers);
  return 0;
}

}  // namespace reprise::cli
