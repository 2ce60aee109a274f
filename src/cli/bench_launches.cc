#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/bench.h"
#include "cli/input.h"
#include "cli/statement.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;
using device::ModelledCosts;

struct LaunchesOptions : DecodeStepOptions {
  int32_t batch_size = 1;
  LaunchesOptions() {
    modes = {"eager", "full_no_passes", "piecewise", "full"};
    steps = 4;
  }
};

/// What a step of one mode costs, and what its captured graphs hold.
struct Row {
  std::string mode;
  ModelledCosts step;  ///< the mean of the steps
  ModelledCosts held;  ///< streams, events and graphs in use behind the steps, beside those before the mode
  int32_t pieces = 0;  ///< that a step replays
  std::string budget;  ///< which sizes the device has room for
  std::string decode_steps;
};

ModelledCosts difference(const ModelledCosts& now, const ModelledCosts& before, int64_t divisor) {
  ModelledCosts result;
  for (const auto member : {&ModelledCosts::launches, &ModelledCosts::replays, &ModelledCosts::updates,
                            &ModelledCosts::kernels, &ModelledCosts::graph_kernels, &ModelledCosts::other_tasks,
                            &ModelledCosts::bytes_read, &ModelledCosts::bytes_written, &ModelledCosts::bytes_copied,
                            &ModelledCosts::streams, &ModelledCosts::events, &ModelledCosts::graphs}) {
    result.*member = (now.*member - before.*member) / divisor;
  }
  for (const auto member : {&ModelledCosts::kernel_seconds, &ModelledCosts::device_seconds}) {
    result.*member = (now.*member - before.*member) / static_cast<double>(divisor);
  }
  return result;
}

double megabytes(int64_t bytes) { return static_cast<double>(bytes) * 1e-6; }

class LaunchesBench {
 public:
  explicit LaunchesBench(const LaunchesOptions& options) : options_(options), session_(options.session) {}

  int run() {
    for (const std::string& mode : options_.modes) rows_.push_back(measure(mode));
    progress_.finish();
    write_output(options_.json ? to_json().dump() + "\n" : to_text());
    return 0;
  }

 private:
  ModelledCosts costs() {
    session_.device().synchronize();
    const std::optional<ModelledCosts> told = session_.device().modelled_costs();
    if (told) return *told;
    throw Error(ErrorCode::kUnsupported, "{} is no emulated device, which alone counts what runs",
                session_.device().name())
        .remedy("use `bench decode`, or --device ascend with the libraries of the emulator");
  }

  /// One engine at a time: each has a KV cache of its own.
  Row measure(const std::string& name) {
    const ModelledCosts idle = costs();
    progress_.begin(name + ": prompts");
    const std::vector<BenchMode> modes = make_bench_modes(session_, {name}, options_.batch_size, options_.context);
    DecodeSteps steps(*modes[0].engine, options_.batch_size, options_.context);
    progress_.begin(name + ": first step");
    steps.step();  // captures
    const ModelledCosts before = costs();
    for (int32_t i = 0; i < options_.steps; ++i) {
      progress_.begin(fmt::format("{}: step {}", name, i + 1));
      steps.step();
    }
    const ModelledCosts after = costs();
    const replay::GraphRunner& runner = modes[0].engine->runner();
    const std::vector<replay::CaptureReport::Bucket>& buckets = runner.capture_report().buckets;
    return {name,
            difference(after, before, options_.steps),
            difference(after, idle, 1),
            buckets.empty() ? 0 : buckets.back().pieces,
            runner.capture_report().budget,
            steps_json(runner.counters(), replay::StepKind::kDecode)};
  }

  std::string to_text() const {
    std::string text = fmt::format("decode steps of {} sequences at {} tokens, means of {} steps\n{}\n",
                                   options_.batch_size, options_.context, options_.steps, subject_);
    TextTable table({"mode", "launches", "replays", "updates", "kernels", "other tasks", "MB read", "MB written",
                     "MB copied", "ms kernels", "ms step"});
    TextTable held({"mode", "graphs", "streams", "events"});
    for (const Row& row : rows_) {
      const ModelledCosts& step = row.step;
      table.add({row.mode, fmt::format("{}", step.launches), fmt::format("{}", step.replays),
                 fmt::format("{}", step.updates), fmt::format("{}", step.kernels), fmt::format("{}", step.other_tasks),
                 fmt::format("{:.1f}", megabytes(step.bytes_read)),
                 fmt::format("{:.1f}", megabytes(step.bytes_written)),
                 fmt::format("{:.1f}", megabytes(step.bytes_copied)), fmt::format("{:.3f}", step.kernel_seconds * 1e3),
                 fmt::format("{:.3f}", step.device_seconds * 1e3)});
      held.add({row.mode, fmt::format("{}", row.held.graphs), fmt::format("{}", row.held.streams),
                fmt::format("{}", row.held.events)});
    }
    text += table.to_text() + "in use with one batch size captured:\n" + held.to_text();
    for (const Row& row : rows_) {
      if (!row.budget.empty()) text += fmt::format("{}: {}\n", row.mode, row.budget);
    }
    return text;
  }

  Json to_json() const {
    Json json{{"bench", "launches"},         {"subject", subject_},     {"batch_size", options_.batch_size},
              {"context", options_.context}, {"steps", options_.steps}, {"results", Json::array()}};
    for (const Row& row : rows_) {
      const ModelledCosts& step = row.step;
      json["results"].push_back({{"mode", row.mode},
                                 {"launches", step.launches},
                                 {"replays", step.replays},
                                 {"updates", step.updates},
                                 {"kernels", step.kernels},
                                 {"graph_kernels", step.graph_kernels},
                                 {"other_tasks", step.other_tasks},
                                 {"bytes_read", step.bytes_read},
                                 {"bytes_written", step.bytes_written},
                                 {"bytes_copied", step.bytes_copied},
                                 {"kernel_seconds", step.kernel_seconds},
                                 {"seconds", step.device_seconds},
                                 {"pieces", row.pieces},
                                 {"graphs_held", row.held.graphs},
                                 {"streams_held", row.held.streams},
                                 {"events_held", row.held.events},
                                 {"capture_budget", row.budget},
                                 {"decode_steps", Json::parse(row.decode_steps)}});
    }
    return json;
  }

  const LaunchesOptions& options_;
  Session session_;
  std::string subject_ = bench_subject(session_);
  BenchProgress progress_{options_.modes.size() * (2 + static_cast<size_t>(options_.steps))};
  std::vector<Row> rows_;
};

int run_launches(const LaunchesOptions& options) {
  require_at_least("--batch-size", options.batch_size, 1);
  options.check();
  return LaunchesBench(options).run();
}

}  // namespace

void add_bench_launches(CommandLine& bench) {
  CommandLine& command = bench.command(
      "launches", "Decode steps on an emulated device: launches, bytes, and what its timing model makes of them");
  const auto options = std::make_shared<LaunchesOptions>();
  options->add_subject(command);
  options->add_modes(command);
  command.option("--batch-size", options->batch_size, "sequences of a step");
  options->add_steps(command);
  options->add_rest(command);
  command.footer(
      "Launches, replays and updates are calls of the host, kernels and other tasks what ran. With "
      "REPRISE_ACL_EXECUTE=0\n"
      "nothing is computed, so that models of any size can be counted; a checkpoint of `synth --hollow` has no "
      "numbers\n"
      "to begin with. Times are those of the emulator's timing model (docs/emulator.md), good for comparing the "
      "modes.");
  command.on_run([options] { return run_launches(*options); });
}

}  // namespace reprise::cli
