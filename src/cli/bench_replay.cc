#include <memory>
#include <nlohmann/json.hpp>

#include "api/devices.h"
#include "base/error.h"
#include "base/malloc_counter.h"
#include "cli/bench.h"
#include "cli/input.h"
#include "cli/statement.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ReplayOptions : DecodeStepOptions {
  int32_t batch = 1;
  int32_t counted_steps = 1000;
  ReplayOptions() { steps = 100; }
};

/// Everything that may happen on the host in steps, by counts.
struct Counts {
  int64_t launches = 0;  ///< that were issued one by one; a replay issues none
  int64_t replays = 0;
  int64_t task_updates = 0;
  int64_t method_calls = 0;
  int64_t dispatches = 0;
  int64_t mallocs = 0;
};

/// What the host pays for a decode step: with kernels that compute nothing, on one thread.
class ReplayBench {
 public:
  explicit ReplayBench(const ReplayOptions& options)
      : options_(options),
        session_(options.session),
        kernels_(api::with_empty_kernels(session_.registry(), session_.device())),
        modes_(make_bench_modes(session_, {"eager", "full"}, options.batch, options.context, &kernels_)),
        eager_(*modes_[0].engine, options.batch, options.context),
        full_(*modes_[1].engine, options.batch, options.context) {}

  int run() {
    eager_.step();
    const int64_t before = session_.device().counters().launches;
    full_.step();  // captures: each launch of the graph is recorded once
    graph_launches_ = session_.device().counters().launches - before;
    for (int32_t round = 0; round < options_.rounds; ++round) {
      repeat(eager_, eager_seconds_);
      repeat(full_, full_seconds_);
    }
    eager_counts_ = count(modes_[0], eager_);
    full_counts_ = count(modes_[1], full_);
    write_output(options_.json ? to_json().dump() + "\n" : to_text());
    return 0;
  }

 private:
  void repeat(DecodeSteps& steps, std::vector<double>& seconds) const {
    steps.step();
    for (int32_t i = 0; i < options_.steps; ++i) seconds.push_back(seconds_of([&] { steps.step(); }));
  }

  Counts count(BenchMode& mode, DecodeSteps& steps) {
    const device::DeviceCounters before = session_.device().counters();
    const int64_t method_calls = mode.engine->runner().method_calls();
    const int64_t dispatches = mode.engine->runner().operator_dispatches();
    Counts counts;
    {
      const MallocCounter mallocs;
      for (int32_t i = 0; i < options_.counted_steps; ++i) steps.step();
      counts.mallocs = mallocs.count();
    }
    const device::DeviceCounters after = session_.device().counters();
    counts.launches = after.launches - before.launches;
    counts.replays = after.replays - before.replays;
    counts.task_updates = after.task_updates - before.task_updates;
    counts.method_calls = mode.engine->runner().method_calls() - method_calls;
    counts.dispatches = mode.engine->runner().operator_dispatches() - dispatches;
    return counts;
  }

  double eager_launches() const { return static_cast<double>(eager_counts_.launches) / options_.counted_steps; }

  std::string to_text() const {
    const auto line = [](const char* name, std::vector<double> seconds, double launches) {
      const double us = median(std::move(seconds)) * 1e6;
      return std::vector<std::string>{name, fmt::format("{:.0f}", launches), fmt::format("{:.2f}", us),
                                      fmt::format("{:.4f}", us / launches)};
    };
    std::string text = fmt::format(
        "host cost of a decode step with empty kernels, batch {}, context {}, medians of {} "
        "steps\n{}\n",
        options_.batch, options_.context, options_.steps * options_.rounds, subject_);
    TextTable times({"mode", "launches", "us/step", "us/launch"});
    times.add(line("eager", eager_seconds_, eager_launches()));
    times.add(line("full", full_seconds_, static_cast<double>(graph_launches_)));
    text += times.to_text() + fmt::format("\nin {} steps\n", options_.counted_steps);
    TextTable counts({"mode", "replays", "launches issued", "task updates", "method calls", "dispatches", "mallocs"});
    const auto add = [&](const char* name, const Counts& c) {
      counts.add({name, fmt::format("{}", c.replays), fmt::format("{}", c.launches), fmt::format("{}", c.task_updates),
                  fmt::format("{}", c.method_calls), fmt::format("{}", c.dispatches),
                  MallocCounter::available() ? fmt::format("{}", c.mallocs) : "not counted"});
    };
    add("eager", eager_counts_);
    add("full", full_counts_);
    text += counts.to_text();
    for (const BenchMode& mode : modes_) {
      text += fmt::format("{}: decode steps {}\n", mode.name,
                          steps_text(mode.engine->runner().counters(), replay::StepKind::kDecode));
    }
    return text;
  }

  Json to_json() const {
    const auto part = [](const BenchMode& mode, const std::vector<double>& seconds, double launches, const Counts& c) {
      const double us = median(seconds) * 1e6;
      return Json{
          {"launches_per_step", launches},
          {"us_per_step", us},
          {"us_per_launch", us / launches},
          {"replays", c.replays},
          {"launches_issued", c.launches},
          {"task_updates", c.task_updates},
          {"method_calls", c.method_calls},
          {"operator_dispatches", c.dispatches},
          {"mallocs", MallocCounter::available() ? Json(c.mallocs) : Json(nullptr)},
          {"decode_steps", Json::parse(steps_json(mode.engine->runner().counters(), replay::StepKind::kDecode))}};
    };
    return {{"bench", "replay"},
            {"subject", subject_},
            {"batch_size", options_.batch},
            {"context", options_.context},
            {"counted_steps", options_.counted_steps},
            {"eager", part(modes_[0], eager_seconds_, eager_launches(), eager_counts_)},
            {"full", part(modes_[1], full_seconds_, static_cast<double>(graph_launches_), full_counts_)}};
  }

  const ReplayOptions& options_;
  Session session_;
  ops::Registry kernels_;
  std::vector<BenchMode> modes_;
  DecodeSteps eager_;
  DecodeSteps full_;
  std::string subject_ = bench_subject(session_);
  std::vector<double> eager_seconds_;
  std::vector<double> full_seconds_;
  int64_t graph_launches_ = 0;
  Counts eager_counts_;
  Counts full_counts_;
};

int run_replay(ReplayOptions& options) {
  require_at_least("--batch-size", options.batch, 1);
  options.check();
  require_at_least("--counted-steps", options.counted_steps, 1);
  if (options.session.threads == 0) options.session.threads = 1;
  return ReplayBench(options).run();
}

}  // namespace

void add_bench_replay(CommandLine& bench) {
  CommandLine& command = bench.command("replay", "The host's cost of a step: eager and replayed, with empty kernels");
  const auto options = std::make_shared<ReplayOptions>();
  options->add_subject(command);
  command.option("--batch-size", options->batch, "sequences of a step");
  options->add_steps(command);
  command.option("--counted-steps", options->counted_steps, "steps over which launches, calls and mallocs are counted");
  options->add_rest(command);
  command.footer(
      "The captured program is that of the model, with its launches, tiles and arguments; only the kernels do "
      "nothing.\n"
      "A step is counted from forming the batch to the sampled tokens. Threads: 1, unless given.");
  command.on_run([options] { return run_replay(*options); });
}

}  // namespace reprise::cli
