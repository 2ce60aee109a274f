#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/bench.h"
#include "cli/bench_limits.h"
#include "cli/input.h"
#include "cli/recipe_options.h"
#include "cli/statement.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

struct DecodeOptions : DecodeStepOptions {
  std::vector<int32_t> batch_sizes = {1, 8, 32};
  RecipeOption recipe;
  DecodeOptions() { modes = {"eager", "force_eager", "piecewise", "full", "full_no_passes"}; }
};

/// What was measured of one mode at one batch size.
struct Row {
  std::string mode;
  int32_t batch;
  int64_t launches;               ///< of kernels in a step
  int64_t issued;                 ///< those of them that the host makes one by one
  std::vector<double> seconds{};  ///< of each step
  LimitShare share{};             ///< of the least that a step can take, measured in the same rounds
  double read_seconds = 0;        ///< of its weights, the same
  double median_seconds() const { return median(seconds); }
  double tokens_per_second() const { return batch / median_seconds(); }
};

class DecodeBench {
 public:
  explicit DecodeBench(const DecodeOptions& options)
      : options_(options),
        session_(options.session),
        limits_(session_),
        modes_(make_bench_modes(session_, options.modes,
                                *std::max_element(options.batch_sizes.begin(), options.batch_sizes.end()),
                                options.context)) {}

  int run() {
    for (const int32_t batch : options_.batch_sizes) measure(batch);
    progress_.finish();
    write_output(options_.json ? to_json().dump() + "\n" : to_text());
    return 0;
  }

 private:
  void measure(int32_t batch) {
    std::vector<std::unique_ptr<DecodeSteps>> runs;
    const size_t first = rows_.size();
    for (BenchMode& mode : modes_) {
      progress_.begin(fmt::format("{}, batch {}: prompts", mode.name, batch));
      runs.push_back(std::make_unique<DecodeSteps>(*mode.engine, batch, options_.context));
      runs.back()->step();  // captures
      rows_.push_back(count_launches(mode, *runs.back(), batch));
    }
    limits_.begin();
    for (int32_t round = 0; round < options_.rounds; ++round) {
      limits_.measure(options_.steps);
      for (size_t i = 0; i < runs.size(); ++i) {
        progress_.begin(fmt::format("{}, batch {}", modes_[i].name, batch));
        repeat([&] { runs[i]->step(); }, rows_[first + i].seconds);
      }
    }
    const double fastest = fastest_of(rows_, first, [](const Row& row) { return row.median_seconds(); });
    for (size_t i = first; i < rows_.size(); ++i) {
      rows_[i].share = LimitShare(limits_.step_seconds(batch, batch), limits_.best_step_seconds(batch, batch),
                                  rows_[i].median_seconds(), fastest);
      rows_[i].read_seconds = limits_.read_seconds();
    }
    machine_ += fmt::format("batch {}: {}", batch, limits_.to_text());
  }

  /// A row of counts, without times.
  Row count_launches(const BenchMode& mode, DecodeSteps& steps, int32_t batch) {
    const int64_t before = session_.device().counters().launches;
    steps.step();
    const int64_t issued = session_.device().counters().launches - before;
    const replay::CaptureReport::Bucket* graph = captured(mode, batch);
    return {mode.name, batch, issued + (graph == nullptr ? 0 : graph->launches), issued};
  }

  /// What the last step of a mode replayed; null when it ran eagerly.
  static const replay::CaptureReport::Bucket* captured(const BenchMode& mode, int32_t batch) {
    const replay::GraphRunner& runner = mode.engine->runner();
    if (runner.last_reason() != replay::StepReason::kReplayed) return nullptr;
    const int32_t size = replay::bucket_for(runner.buckets(), batch);
    for (const replay::CaptureReport::Bucket& bucket : runner.capture_report().buckets) {
      if (bucket.kind == replay::StepKind::kDecode && bucket.size == size) return &bucket;
    }
    return nullptr;
  }

  /// "full: decode steps 35 replayed, 0 eager", and what a replayed step still runs eagerly.
  static std::string steps_line(const BenchMode& mode) {
    std::string text = fmt::format("{}: decode steps {}", mode.name,
                                   steps_text(mode.engine->runner().counters(), replay::StepKind::kDecode));
    const std::vector<replay::CaptureReport::Bucket>& buckets = mode.engine->runner().capture_report().buckets;
    if (!buckets.empty() && buckets.back().pieces > 1) {
      text += fmt::format("; each replays {} pieces and runs eagerly between them, as splitting_ops says: {}",
                          buckets.back().pieces, buckets.back().eager_operators);
    }
    return text + "\n";
  }

  /// "full, batch 1: chosen 1 of 2 threads: 61.2 us alone, 75.3 us shared", for each size that the device has chosen
  /// for.
  std::string cores_lines(const BenchMode& mode) const {
    std::string text;
    for (const int32_t batch : options_.batch_sizes) {
      const std::string choice = core_choice(mode, batch);
      if (!choice.empty()) text += fmt::format("{}, batch {}: chosen {}\n", mode.name, batch, choice);
    }
    return text;
  }

  static std::string core_choice(const BenchMode& mode, int32_t batch) {
    const replay::GraphRunner& runner = mode.engine->runner();
    return runner.core_choice(replay::StepKind::kDecode, replay::bucket_for(runner.buckets(), batch));
  }

  /// One call that is not counted (it finds the caches as something else left them), then as many as wanted.
  template <typename Function>
  void repeat(Function function, std::vector<double>& seconds) const {
    function();
    for (int32_t i = 0; i < options_.steps; ++i) seconds.push_back(seconds_of(function));
  }

  const BenchMode& mode_of(const Row& row) const {
    return *std::find_if(modes_.begin(), modes_.end(), [&](const BenchMode& mode) { return mode.name == row.mode; });
  }

  /// Speed relative to the first mode at the same batch size.
  double ratio(const Row& row) const {
    for (const Row& other : rows_) {
      if (other.batch == row.batch) return other.median_seconds() / row.median_seconds();
    }
    return 1;
  }

  std::string to_text() const {
    std::string text = fmt::format("decode, context {}, medians of {} steps in {} rounds\n{}\n", options_.context,
                                   options_.steps * options_.rounds, options_.rounds, subject_);
    TextTable table({"mode", "batch", "ms/step", "tokens/s", fmt::format("vs {}", modes_[0].name), "of the limit",
                     "launches", "issued"});
    for (const Row& row : rows_) {
      table.add({row.mode, fmt::format("{}", row.batch), fmt::format("{:.3f}", row.median_seconds() * 1e3),
                 fmt::format("{:.1f}", row.tokens_per_second()), fmt::format("{:.3f}", ratio(row)), row.share.to_text(),
                 fmt::format("{}", row.launches), fmt::format("{}", row.issued)});
    }
    const bool disturbed = std::any_of(rows_.begin(), rows_.end(), [](const Row& r) { return r.share.is_disturbed(); });
    text += table.to_text() + LimitShare::remark(disturbed) + machine_;
    for (const BenchMode& mode : modes_) text += steps_line(mode) + cores_lines(mode);
    return text;
  }

  /// null where the device has no limit to compare with.
  static Json measured(const Row& row, double value) { return row.share.is_measured() ? Json(value) : Json(); }

  Json to_json() const {
    Json json{{"bench", "decode"},        {"subject", subject_},           {"context", options_.context},
              {"steps", options_.steps},  {"rounds", options_.rounds},     {"weight_bytes", limits_.weight_bytes()},
              {"results", Json::array()}, {"decode_steps", Json::object()}};
    for (const Row& row : rows_) {
      Json result{
          {"mode", row.mode},
          {"batch_size", row.batch},
          {"launches_per_step", row.launches},
          {"launches_issued_per_step", row.issued},
          {"seconds_per_step", row.median_seconds()},
          {"tokens_per_second", row.tokens_per_second()},
          {"ratio_to_first_mode", ratio(row)},
          {"read_bytes_per_second", measured(row, static_cast<double>(limits_.weight_bytes()) / row.read_seconds)},
          {"share_of_limit", measured(row, row.share.value())},
          {"limit_disturbed", row.share.is_disturbed()}};
      if (const std::string choice = core_choice(mode_of(row), row.batch); !choice.empty()) result["cores"] = choice;
      json["results"].push_back(std::move(result));
    }
    for (const BenchMode& mode : modes_) {
      json["decode_steps"][mode.name] =
          Json::parse(steps_json(mode.engine->runner().counters(), replay::StepKind::kDecode));
    }
    return json;
  }

  const DecodeOptions& options_;
  Session session_;
  BenchLimits limits_;
  std::vector<BenchMode> modes_;
  std::string subject_ = bench_subject(session_);
  BenchProgress progress_{modes_.size() * options_.batch_sizes.size() * (1 + static_cast<size_t>(options_.rounds))};
  std::vector<Row> rows_;
  std::string machine_;  ///< what it read and multiplied at each batch size
};

void apply_recipe(DecodeOptions& options) {
  const RecipeOption& recipe = options.recipe;
  const std::optional<RecipeConfig> file = recipe.apply(
      options.session,
      {"data_config.input_truncated_len", "scheduler_config.batch_size", "scheduler_config.max_new_tokens"});
  if (!file) return;
  recipe.set("--batch-size", options.batch_sizes, std::vector<int32_t>{file->batch_size});
  recipe.set("--input-len", options.context, file->input_truncated_len);
  recipe.set("--steps", options.steps, file->max_new_tokens);
  const char* only = options.session.compile.force_eager ? "force_eager" : file->mode == "eager" ? "eager" : nullptr;
  if (only != nullptr) recipe.set("--modes", options.modes, std::vector<std::string>{only});
  options.session.compile.force_eager = false;  // now --modes says what runs
}

int run_decode(DecodeOptions& options) {
  apply_recipe(options);
  require_at_least("--batch-size", options.batch_sizes, 1);
  options.check();
  return DecodeBench(options).run();
}

}  // namespace

void add_bench_decode(CommandLine& bench) {
  CommandLine& command =
      bench.command("decode", "Decode steps: tokens per second, and the share of the machine's limit");
  const auto options = std::make_shared<DecodeOptions>();
  options->add_subject(command, false);
  options->recipe.add(command);
  options->add_modes(command);
  command.option("--batch-size", options->batch_sizes, "sequences of a step; several sizes are measured in turn");
  options->add_steps(command);
  options->add_rest(command);
  command.footer(
      "The limit is measured in each round, before the steps: the same threads read a buffer as large as the weights\n"
      "that one token reads, and make products in registers. A step takes at least as long as it takes to read those\n"
      "weights, or to make the products of its tokens; 100 % would be a step that does nothing else.\n"
      "Launches are those of one step, issued ones those that the host makes one by one instead of in a replay.");
  command.on_run([options] { return run_decode(*options); });
}

}  // namespace reprise::cli
