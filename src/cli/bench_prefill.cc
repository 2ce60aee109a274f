#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/bench.h"
#include "cli/bench_limits.h"
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
  LimitShare share{};  ///< of the least that reading the prompt can take, measured in the same rounds
  double tokens_per_second() const { return length / median(seconds); }
};

class PrefillBench {
 public:
  explicit PrefillBench(const PrefillOptions& options)
      : options_(options),
        session_(options.session),
        limits_(session_),
        longest_(*std::max_element(options.lengths.begin(), options.lengths.end())),
        modes_(make_bench_modes(session_, options.modes, 1, longest_)) {}

  int run() {
    std::vector<BenchSequence> sequences;
    std::vector<engine::StepBuilder> builders;
    for (BenchMode& mode : modes_) {
      sequences.emplace_back(*mode.engine, longest_, 0);
      builders.emplace_back(mode.engine->kv_pool());
    }
    BenchProgress progress(modes_.size() * options_.lengths.size() * (1 + static_cast<size_t>(options_.rounds)));
    for (const int32_t length : options_.lengths) {
      const size_t first = rows_.size();
      for (size_t i = 0; i < modes_.size(); ++i) {
        rows_.push_back({modes_[i].name, length});
        progress.begin(fmt::format("{}, {} tokens: first", modes_[i].name, length));
        sequences[i].read(builders[i], length);  // traces, and grows what grows
      }
      limits_.begin();
      for (int32_t round = 0; round < options_.rounds; ++round) {
        limits_.measure(2);
        for (size_t i = 0; i < modes_.size(); ++i) {
          progress.begin(fmt::format("{}, {} tokens", modes_[i].name, length));
          rows_[first + i].seconds.push_back(seconds_of([&] { sequences[i].read(builders[i], length); }));
        }
      }
      const double fastest = fastest_of(rows_, first, [](const Row& row) { return median(row.seconds); });
      for (size_t i = first; i < rows_.size(); ++i) {
        rows_[i].share = share_of(length, median(rows_[i].seconds), fastest);
      }
      machine_ += fmt::format("{} tokens: {}", length, limits_.to_text());
    }
    progress.finish();
    write_output(options_.json ? to_json().dump() + "\n" : to_text());
    return 0;
  }

 private:
  /// Of the steps that read a prompt; each yields the logits of its last token.
  LimitShare share_of(int32_t length, double seconds, double fastest) const {
    const int32_t most = options_.session.max_prefill_tokens;
    double limit = 0, best = 0;
    for (int32_t at = 0; at < length; at += most) {
      limit += limits_.step_seconds(std::min(most, length - at), 1);
      best += limits_.best_step_seconds(std::min(most, length - at), 1);
    }
    return LimitShare(limit, best, seconds, fastest);
  }

  std::string to_text() const {
    std::string text = fmt::format("prefill, one sequence in chunks of up to {} tokens, medians of {} rounds\n{}\n",
                                   options_.session.max_prefill_tokens, options_.rounds, subject_);
    TextTable table({"mode", "tokens", "ms", "tokens/s", "of the limit"});
    for (const Row& row : rows_) {
      table.add({row.mode, fmt::format("{}", row.length), fmt::format("{:.3f}", median(row.seconds) * 1e3),
                 fmt::format("{:.1f}", row.tokens_per_second()), row.share.to_text()});
    }
    const bool disturbed = std::any_of(rows_.begin(), rows_.end(), [](const Row& r) { return r.share.is_disturbed(); });
    text += table.to_text() + LimitShare::remark(disturbed) + machine_;
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
                                 {"tokens_per_second", row.tokens_per_second()},
                                 {"share_of_limit", row.share.is_measured() ? Json(row.share.value()) : Json()},
                                 {"limit_disturbed", row.share.is_disturbed()}});
    }
    for (const BenchMode& mode : modes_) {
      json["prefill_steps"][mode.name] =
          Json::parse(steps_json(mode.engine->runner().counters(), replay::StepKind::kPrefill));
    }
    return json;
  }

  const PrefillOptions& options_;
  Session session_;
  BenchLimits limits_;
  int32_t longest_;
  std::vector<BenchMode> modes_;
  std::string subject_ = bench_subject(session_);
  std::vector<Row> rows_;
  std::string machine_;  ///< what it read and multiplied at each length
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
