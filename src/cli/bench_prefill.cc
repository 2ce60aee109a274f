#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/bench.h"
#include "cli/input.h"
#include "cli/statement.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PrefillOptions : BenchOptions {
  std::vector<int32_t> lengths = {16, 64, 256};
  PrefillOptions() { rounds = 5; }
};

struct Row {
  std::string mode;
  int32_t length;
  std::vector<double> seconds{};
  double tokens_per_second() const { return length / median(seconds); }
};

class PrefillBench {
 public:
  explicit PrefillBench(const PrefillOptions& options)
      : options_(options),
        session_(options.session),
        longest_(*std::max_element(options.lengths.begin(), options.lengths.end())),
        modes_(make_bench_modes(session_, options.modes, options.session.page_size, 1, longest_)) {}

  int run() {
    std::vector<BenchSequence> sequences;
    std::vector<engine::StepBuilder> builders;
    for (BenchMode& mode : modes_) {
      sequences.emplace_back(*mode.engine, longest_, 0);
      builders.emplace_back(mode.engine->kv_pool());
    }
    for (const int32_t length : options_.lengths) {
      const size_t first = rows_.size();
      for (size_t i = 0; i < modes_.size(); ++i) {
        rows_.push_back({modes_[i].name, length});
        sequences[i].read(builders[i], length);  // traces, and grows what grows
      }
      for (int32_t round = 0; round < options_.rounds; ++round) {
        for (size_t i = 0; i < modes_.size(); ++i) {
          rows_[first + i].seconds.push_back(seconds_of([&] { sequences[i].read(builders[i], length); }));
        }
      }
    }
    write_output(options_.json ? to_json().dump() + "\n" : to_text());
    return 0;
  }

 private:
  std::string to_text() const {
    std::string text = fmt::format("prefill, one sequence in chunks of up to {} tokens, medians of {} rounds\n{}\n",
                                   options_.session.max_prefill_tokens, options_.rounds, subject_);
    TextTable table({"mode", "tokens", "ms", "tokens/s"});
    for (const Row& row : rows_) {
      table.add({row.mode, fmt::format("{}", row.length), fmt::format("{:.3f}", median(row.seconds) * 1e3),
                 fmt::format("{:.1f}", row.tokens_per_second())});
    }
    text += table.to_text();
    for (const BenchMode& mode : modes_) {
      text += fmt::format("{}: prefill steps {}\n", mode.name,
                          steps_text(mode.engine->runner().counters(), replay::StepKind::kPrefill));
    }
    return text;
  }

  Json to_json() const {
    Json json{{"bench", "prefill"},
              {"subject", subject_},
              {"max_prefill_tokens", options_.session.max_prefill_tokens},
              {"rounds", options_.rounds},
              {"results", Json::array()},
              {"prefill_steps", Json::object()}};
    for (const Row& row : rows_) {
      json["results"].push_back({{"mode", row.mode},
                                 {"input_length", row.length},
                                 {"seconds", median(row.seconds)},
                                 {"tokens_per_second", row.tokens_per_second()}});
    }
    for (const BenchMode& mode : modes_) {
      json["prefill_steps"][mode.name] =
          Json::parse(steps_json(mode.engine->runner().counters(), replay::StepKind::kPrefill));
    }
    return json;
  }

  const PrefillOptions& options_;
  Session session_;
  int32_t longest_;
  std::vector<BenchMode> modes_;
  std::string subject_ = bench_subject(session_);
  std::vector<Row> rows_;
};

int run_prefill(const PrefillOptions& options) {
  // A single token is a decode step.
  require_at_least("--input-len", options.lengths, 2);
  require_at_least("--rounds", options.rounds, 1);
  return PrefillBench(options).run();
}

}  // namespace

void add_bench_prefill(CommandLine& bench) {
  CommandLine& command = bench.command("prefill", "Reading prompts: tokens per second over prompt lengths");
  const auto options = std::make_shared<PrefillOptions>();
  options->add_subject(command);
  options->add_modes(command);
  command.option("--input-len", options->lengths, "tokens of the prompt; several lengths are measured in turn");
  options->add_rest(command);
  command.on_run([options] { return run_prefill(*options); });
}

}  // namespace reprise::cli
