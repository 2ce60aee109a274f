#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/gsm8k.h"
#include "cli/output_file.h"
#include "cli/recipe_options.h"
#include "cli/server_address.h"
#include "cli/session.h"

namespace reprise::cli {

/// What the three ways to measure answers to gsm8k share: a model here, its modes side by side, a running server.
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
  ServerAddress server;  ///< used when its base_url is given
  std::string backend = "sglang";
  bool compare_modes = false;
  const CommandLine* command = nullptr;  ///< that the options are of
  std::string quantized;                 ///< directory of the same model with int8 weights, for compare_modes
};

/// What ends an answer.
inline const std::vector<std::string> kGsm8kStops = {"Question", "Assistant:", "<|separator|>"};

struct Gsm8kAnswer {
  std::string text;
  int64_t tokens = 0;
};

/// The questions that are asked, with the solved problems in front of each.
class Gsm8kQuestions {
 public:
  explicit Gsm8kQuestions(const EvalOptions& options);

  size_t size() const { return problems_.size(); }
  std::string prompt(size_t index) const { return few_shot_prompt(examples_, problems_[index].question); }
  bool is_right(size_t index, const Gsm8kAnswer& answer) const;
  /// One JSON object a line.
  void write(OutputFile& file, std::span<const Gsm8kAnswer> answers) const;

 private:
  std::vector<GradeSchoolProblem> problems_;
  std::string examples_;
};

/// What came out, in the numbers that the published script prints.
struct Gsm8kScore {
  int64_t questions = 0;
  int64_t right = 0;
  int64_t invalid = 0;  ///< answers without a number
  int64_t tokens = 0;
  double seconds = 0;

  double share(int64_t count) const { return static_cast<double>(count) / static_cast<double>(questions); }
  double throughput() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
  /// "Accuracy: ...", "Invalid: ...", "Latency: ...", "Output throughput: ...", and how many were right.
  std::string text() const;
  /// The same as an object: "questions", "right", "accuracy", "invalid", "latency_seconds" ...
  std::string json() const;
};
Gsm8kScore score_answers(const Gsm8kQuestions& questions, std::span<const Gsm8kAnswer> answers, double seconds);

/// Answers of one engine. The session outlives it.
class Gsm8kRun {
 public:
  /// Makes the engine for these questions and captures ahead. `mode`: instead of that of --mode.
  Gsm8kRun(const EvalOptions& options, Session& session, const Gsm8kQuestions& questions,
           std::optional<replay::Mode> mode = std::nullopt);
  ~Gsm8kRun();
  /// Asks as many at a time as fit. Throws kCancelled when it was interrupted, and the first error of an answer.
  void answer();

  std::span<const Gsm8kAnswer> answers() const { return answers_; }
  double seconds() const { return seconds_; }
  engine::Engine& engine() { return *engine_; }

 private:
  const EvalOptions& options_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<engine::RequestSize> sizes_;
  std::vector<Gsm8kAnswer> answers_;
  std::unique_ptr<engine::Engine> engine_;
  double seconds_ = 0;
};

/// --compare-modes and --base-url. Each gives the exit code.
int run_gsm8k_modes(const EvalOptions& options);
int run_gsm8k_server(const EvalOptions& options);

}  // namespace reprise::cli
