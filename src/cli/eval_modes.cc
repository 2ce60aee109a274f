#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "api/devices.h"
#include "base/error.h"
#include "cli/bench.h"
#include "cli/eval_gsm8k.h"
#include "cli/input.h"
#include "cli/statement.h"
#include "client/measures.h"
#include "load/model_config.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

/// One line of the table.
struct Version {
  std::string name;
  Gsm8kScore score;
  int64_t same_texts = 0;  ///< answers that are those of the first version, byte for byte
  std::string steps;       ///< decode steps by how they ran
};

/// What the model's weights are called in the table. Throws for a model that is not quantised.
std::string scheme_of(const std::string& model) {
  if (!std::filesystem::exists(model)) {
    throw Error(ErrorCode::kNotFound, "--quantized: there is no model at {}", model);
  }
  const load::Quantization quantization = load::ModelConfig::load(load::model_directory(model)).quantization;
  std::set<load::LinearScheme> schemes;
  for (const std::string& layer : quantization.described_layers()) schemes.insert(quantization.scheme_of(layer));
  if (quantization.convention() == load::Quantization::Convention::kCompressedTensors) {
    schemes.insert(load::LinearScheme::kW8A8Dynamic);
  }
  if (schemes.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--quantized is '{}', whose weights are not quantised", model)
        .remedy("`reprise quantize` makes such models");
  }
  return schemes.contains(load::LinearScheme::kW8A8) ? "W8A8" : "W8A8 dynamic";
}

class ModeComparison {
 public:
  explicit ModeComparison(const EvalOptions& options) : options_(options), questions_(options) {}

  int run() {
    // Before anything is asked.
    const std::string scheme = options_.quantized.empty() ? "" : scheme_of(options_.quantized);
    std::optional<OutputFile> output;
    if (!options_.output_file.empty()) output.emplace(options_.output_file);
    std::string subject;
    {
      Session session(options_.session);
      subject = bench_subject(session);
      ask(session, "eager", replay::Mode::kEager);
      ask(session, "full", replay::Mode::kFull);
      ask(session, "piecewise", replay::Mode::kPiecewise);
    }
    if (!options_.quantized.empty()) {
      SessionOptions quantized = options_.session;
      quantized.model = options_.quantized;
      Session session(quantized);
      subject += fmt::format("\n{}: {}", scheme, bench_subject(session));
      ask(session, scheme + ", full", replay::Mode::kFull);
    }
    write_output(options_.json ? json(subject) : text(subject));
    if (output) questions_.write(*output, reference_);
    return 0;
  }

 private:
  void ask(Session& session, const std::string& name, replay::Mode mode) {
    Gsm8kRun run(options_, session, questions_, mode);
    run.answer();
    Version& version = versions_.emplace_back();
    version.name = name;
    version.score = score_answers(questions_, run.answers(), run.seconds());
    version.steps = steps_text(run.engine().runner().counters(), replay::StepKind::kDecode);
    if (reference_.empty()) reference_.assign(run.answers().begin(), run.answers().end());
    for (size_t i = 0; i < reference_.size(); ++i) version.same_texts += run.answers()[i].text == reference_[i].text;
  }

  static client::Interval interval(const Gsm8kScore& score) {
    return client::wilson_interval(score.right, score.questions);
  }

  std::string text(const std::string& subject) const {
    TextTable table({"Version", "Accuracy", "95 % interval", "right", "invalid", "texts as eager", "latency (s)",
                     "output (token/s)"});
    for (const Version& version : versions_) {
      const client::Interval bounds = interval(version.score);
      table.add({version.name, fmt::format("{:.1f}%", 100 * version.score.share(version.score.right)),
                 fmt::format("{:.1f} to {:.1f}%", 100 * bounds.low, 100 * bounds.high),
                 fmt::format("{} of {}", version.score.right, version.score.questions),
                 fmt::format("{}", version.score.invalid), fmt::format("{}", version.same_texts),
                 fmt::format("{:.3f}", version.score.seconds), fmt::format("{:.3f}", version.score.throughput())});
    }
    std::string result = fmt::format("gsm8k, {} shots, {}\n{}", options_.shots, subject, "\n");
    result += table.to_text() + "\n";
    for (const Version& version : versions_)
      result += fmt::format("{}: decode steps {}\n", version.name, version.steps);
    return result;
  }

  std::string json(const std::string& subject) const {
    Json all{{"task", "gsm8k"}, {"subject", subject}, {"shots", options_.shots}, {"versions", Json::array()}};
    for (const Version& version : versions_) {
      const client::Interval bounds = interval(version.score);
      Json one{{"name", version.name}};
      one.update(Json::parse(version.score.json()));
      one.update(Json{{"interval", {bounds.low, bounds.high}},
                      {"texts_as_eager", version.same_texts},
                      {"decode_steps", version.steps}});
      all["versions"].push_back(std::move(one));
    }
    return all.dump() + "\n";
  }

  const EvalOptions& options_;
  Gsm8kQuestions questions_;
  std::vector<Version> versions_;
  std::vector<Gsm8kAnswer> reference_;  ///< of the first version
};

}  // namespace

int run_gsm8k_modes(const EvalOptions& options) { return ModeComparison(options).run(); }

}  // namespace reprise::cli
