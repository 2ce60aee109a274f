#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/devices.h"
#include "base/error.h"
#include "base/progress_bar.h"
#include "cli/commands.h"
#include "cli/gsm8k.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output_file.h"
#include "cli/recipe_options.h"
#include "cli/session.h"
#include "cli/statement.h"
#include "text/tokenizer.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EvalOptions {
  SessionOptions session;
  std::string data_file;
  std::string output_file;
  int32_t shots = 5;
  int32_t questions = 200;
  int32_t parallel = 32;
  int32_t max_new_tokens = 512;
  bool json = false;
  RecipeOption recipe;
};

/// What came out, in the numbers that the published script prints.
struct Score {
  int64_t questions = 0;
  int64_t right = 0;
  int64_t invalid = 0;  ///< answers without a number
  int64_t tokens = 0;
  double seconds = 0;

  double share(int64_t count) const { return static_cast<double>(count) / static_cast<double>(questions); }
  double throughput() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

/// Asks the model every question, as many at a time as fit, and scores the answers.
class Gsm8kEvaluation {
 public:
  Gsm8kEvaluation(const EvalOptions& options, std::vector<GradeSchoolProblem> problems)
      : options_(options), problems_(std::move(problems)) {
    examples_ = few_shot_examples(problems_, static_cast<size_t>(options.shots));
    problems_.resize(std::min(problems_.size(), static_cast<size_t>(options.questions)));
    answers_.resize(problems_.size());
  }

  int run() {
    // Before the model is loaded: a path that cannot be written should not cost an evaluation.
    std::optional<OutputFile> output;
    if (!options_.output_file.empty()) output.emplace(options_.output_file);
    Session& session = session_.emplace(options_.session);
    const text::Tokenizer tokenizer = text::load_tokenizer(session.directory());
    std::vector<std::vector<int32_t>> prompts;
    for (const GradeSchoolProblem& problem : problems_) {
      prompts.push_back(tokenizer.encode(few_shot_prompt(examples_, problem.question)));
    }
    make_engine(session, tokenizer, prompts);
    answer(std::move(prompts));
    for (const engine::RequestOutput& one : answers_) {
      if (one.error) throw *one.error;
    }
    if (interrupted())
      throw Error(ErrorCode::kCancelled, "interrupted after {} of {} questions", done_, answers_.size());
    const Score score = count();
    report(score, session);
    if (output) write_answers(*output);
    return 0;
  }

 private:
  void make_engine(Session& session, const text::Tokenizer& tokenizer,
                   const std::vector<std::vector<int32_t>>& prompts) {
    const int64_t maximum = options_.session.max_context > 0
                                ? std::min<int64_t>(options_.session.max_context, session.model()->info().max_positions)
                                : session.model()->info().max_positions;
    int64_t longest = 1;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto tokens = static_cast<int64_t>(prompts[i].size());
      if (tokens >= maximum) {
        throw Error(ErrorCode::kInvalidArgument, "question {} has {} tokens with its examples; the context is {}",
                    i + 1, tokens, maximum)
            .remedy("use fewer --num-shots");
      }
      const auto room = static_cast<int32_t>(std::min<int64_t>(options_.max_new_tokens, maximum - tokens));
      sizes_.push_back({static_cast<int32_t>(tokens), room});
      longest = std::max(longest, tokens + room);
    }
    const auto running = static_cast<int32_t>(std::min<size_t>(static_cast<size_t>(options_.parallel), prompts.size()));
    engine_ =
        session.make_engine(tokenizer, running, engine::kv_tokens_for(sizes_, running, options_.session.page_size),
                            static_cast<int32_t>(longest));
    engine_->capture(running);
  }

  void answer(std::vector<std::vector<int32_t>> prompts) {
    ProgressBar bar;
    const auto update = [&] {
      bar.update(static_cast<double>(done_), static_cast<double>(answers_.size()), "Answering questions");
    };
    watch_interrupts();
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < prompts.size(); ++i) {
      engine::Request request;
      request.prompt = std::move(prompts[i]);
      request.sampling.temperature = 0;
      request.sampling.max_new_tokens = sizes_[i].max_new_tokens;
      request.sampling.stop = {"Question", "Assistant:", "<|separator|>"};
      request.on_token = [this, i](const engine::TokenEvent& event) {
        if (event.output == nullptr) return;
        answers_[i] = *event.output;
        ++done_;
      };
      engine_->submit(std::move(request));
    }
    update();
    while (!interrupted() && engine_->step()) update();
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    bar.finish();
  }

  bool is_right(size_t index) const { return final_number(answers_[index].text) == problems_[index].number; }

  Score count() const {
    Score score;
    score.questions = static_cast<int64_t>(answers_.size());
    score.seconds = seconds_;
    for (size_t i = 0; i < answers_.size(); ++i) {
      score.right += is_right(i) ? 1 : 0;
      score.invalid += final_number(answers_[i].text) ? 0 : 1;
      score.tokens += static_cast<int64_t>(answers_[i].token_ids.size());
    }
    return score;
  }

  void report(const Score& score, Session& session) {
    if (options_.json) {
      Json json{{"task", "gsm8k"},
                {"questions", score.questions},
                {"shots", options_.shots},
                {"parallel", engine_->options().max_running},
                {"right", score.right},
                {"accuracy", score.share(score.right)},
                {"invalid", score.share(score.invalid)},
                {"latency_seconds", score.seconds},
                {"output_tokens", score.tokens},
                {"output_tokens_per_second", score.throughput()},
                {"statement", Json::parse(statement_json(*engine_, session.autotune_report()))}};
      return write_output(json.dump() + "\n");
    }
    write_output(
        fmt::format("Accuracy: {:.3f}\nInvalid: {:.3f}\nLatency: {:.3f} s\nOutput throughput: {:.3f} token/s\n"
                    "{} of {} right\n",
                    score.share(score.right), score.share(score.invalid), score.seconds, score.throughput(),
                    score.right, score.questions));
    write_message(
        fmt::format("\n{}\n{}", api::describe(session.device()), statement_text(*engine_, session.autotune_report())));
  }

  void write_answers(OutputFile& output) const {
    for (size_t i = 0; i < answers_.size(); ++i) {
      const std::optional<std::string> number = final_number(answers_[i].text);
      const Json json{{"question", problems_[i].question},
                      {"expected", problems_[i].number},
                      {"text", answers_[i].text},
                      {"answer", number ? Json(*number) : Json(nullptr)},
                      {"right", is_right(i)}};
      output.write(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    }
    output.close();
  }

  const EvalOptions& options_;
  std::vector<GradeSchoolProblem> problems_;
  std::string examples_;
  std::vector<engine::RequestSize> sizes_;
  std::vector<engine::RequestOutput> answers_;
  std::optional<Session> session_;  // before the engine, which must go first
  std::unique_ptr<engine::Engine> engine_;
  size_t done_ = 0;
  double seconds_ = 0;
};

void apply_recipe(EvalOptions& options) {
  const std::optional<RecipeConfig> file = options.recipe.apply(
      options.session, {"model_config.output_path", "scheduler_config.batch_size", "scheduler_config.max_new_tokens"});
  if (!file) return;
  options.recipe.set("--parallel", options.parallel, file->batch_size);
  options.recipe.set("--max-new-tokens", options.max_new_tokens, file->max_new_tokens);
  if (!file->output_path.empty())
    options.recipe.set("--out", options.output_file, RecipeOption::output_file(*file, "gsm8k.jsonl"));
}

int run_gsm8k(EvalOptions& options) {
  apply_recipe(options);
  const auto require = [](const char* name, int32_t value, int32_t least) {
    if (value < least) throw Error(ErrorCode::kInvalidArgument, "{} is {}, must be at least {}", name, value, least);
  };
  require("--num-shots", options.shots, 0);
  require("--num-questions", options.questions, 1);
  require("--parallel", options.parallel, 1);
  require("--max-new-tokens", options.max_new_tokens, 1);
  return Gsm8kEvaluation(options, read_gsm8k(options.data_file)).run();
}

}  // namespace

void add_eval(CommandLine& program) {
  CommandLine& eval = program.command("eval", "Measure how well a model answers");
  CommandLine& command = eval.command("gsm8k", "Grade-school arithmetic problems, few-shot, greedy");
  const auto options = std::make_shared<EvalOptions>();
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
  options->session.add_device(command);
  options->session.add_engine(command);
  options->session.add_graph(command);
  command.footer(
      "An answer is right when the last number in it is that of the file. Form and scoring are those of SGLang's\n"
      "few_shot_gsm8k, so that numbers can be compared.");
  command.on_run([options] { return run_gsm8k(*options); });
}

}  // namespace reprise::cli
