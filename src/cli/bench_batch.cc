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

struct BatchOptions : BenchOptions {
  std::vector<int32_t> batch_sizes = {1, 8, 32};
  std::vector<int32_t> input_lengths = {128};
  std::vector<int32_t> output_lengths = {32};
  BatchOptions() { rounds = 3; }
};

/// One batch: so many prompts of one length, and so many tokens more of each.
struct Shape {
  int32_t batch;
  int32_t input_length;
  int32_t output_length;
  int32_t tokens() const { return input_length + output_length; }
};

/// What was measured of one mode and shape.
struct Row {
  std::string mode;
  Shape shape;
  std::vector<double> prefill_seconds{};  ///< of each round
  std::vector<double> decode_seconds{};   ///< of each step of all rounds
  std::vector<double> total_seconds{};    ///< of each round
  LimitShare prefill_share{};             ///< of the least that it can take, measured in the same rounds
  LimitShare decode_share{};              ///< of a step, the same

  double prefill() const { return median(prefill_seconds); }
  double decode() const { return median(decode_seconds); }
  double total() const { return median(total_seconds); }
  double prefill_throughput() const { return double{1} * shape.batch * shape.input_length / prefill(); }
  double decode_throughput() const { return shape.batch / decode(); }
  double total_throughput() const { return double{1} * shape.batch * shape.tokens() / total(); }
};

/// Prompts that are read together and continued together, from the first token to the last.
class OneBatch {
 public:
  OneBatch(engine::Engine& engine, const Shape& shape)
      : engine_(engine),
        shape_(shape),
        builder_(engine.kv_pool()),
        sampler_(static_cast<int32_t>(engine.model().info().vocabulary)) {
    greedy_.temperature = 0;
    for (int32_t i = 0; i < shape.batch; ++i) {
      sequences_.emplace_back(engine, shape.tokens(), static_cast<uint64_t>(i));
    }
  }

  /// Reads all prompts in steps of up to the most tokens, several prompts in a step, and samples the first tokens.
  void prefill() {
    const int32_t most = engine_.options().max_prefill_tokens;
    int32_t at = 0;  // tokens that the sequence in turn has been read to
    for (size_t next = 0; next < sequences_.size();) {
      builder_.begin();
      complete_.clear();
      for (int32_t room = most; room > 0 && next < sequences_.size();) {
        const int32_t count = std::min(room, shape_.input_length - at);
        BenchSequence& sequence = sequences_[next];
        builder_.add(std::span(sequence.tokens()).subspan(static_cast<size_t>(at), static_cast<size_t>(count)), at,
                     sequence.pages(), sequence.slot());
        room -= count;
        at += count;
        complete_.push_back(at == shape_.input_length ? static_cast<int32_t>(next) : -1);
        if (at == shape_.input_length) {
          at = 0;
          ++next;
        }
      }
      const replay::LogitsView logits = engine_.run(builder_.finish());
      for (int32_t row = 0; row < logits.rows; ++row) {
        if (complete_[static_cast<size_t>(row)] >= 0) sample(logits, row, complete_[static_cast<size_t>(row)], 0);
      }
    }
  }

  /// The step that yields token `index` (1 and on) of each sequence.
  void decode(int32_t index) {
    const int32_t position = shape_.input_length + index - 1;
    builder_.begin();
    for (BenchSequence& sequence : sequences_) {
      builder_.add(std::span(sequence.tokens()).subspan(static_cast<size_t>(position), 1), position, sequence.pages(),
                   sequence.slot());
    }
    const replay::LogitsView logits = engine_.run(builder_.finish());
    for (int32_t row = 0; row < logits.rows; ++row) sample(logits, row, row, index);
  }

 private:
  void sample(const replay::LogitsView& logits, int32_t row, int32_t sequence, int32_t index) {
    const int32_t position = shape_.input_length + index;
    sequences_[static_cast<size_t>(sequence)].tokens()[static_cast<size_t>(position)] =
        sampler_.sample(logits.row(row), greedy_, nullptr, 0, position);
  }

  engine::Engine& engine_;
  Shape shape_;
  std::vector<BenchSequence> sequences_;
  engine::StepBuilder builder_;
  engine::Sampler sampler_;
  engine::SamplingParameters greedy_;
  std::vector<int32_t> complete_;  ///< for each row of a prompt step, the sequence that it ends, or -1
};

class BatchBench {
 public:
  explicit BatchBench(const BatchOptions& options)
      : options_(options),
        session_(options.session),
        limits_(session_),
        modes_(make_bench_modes(session_, options.modes, largest(options.batch_sizes),
                                int64_t{largest(options.input_lengths)} + largest(options.output_lengths))) {}

  int run() {
    for (const int32_t batch : options_.batch_sizes) {
      for (const int32_t input_length : options_.input_lengths) {
        for (const int32_t output_length : options_.output_lengths) measure({batch, input_length, output_length});
      }
    }
    progress_.finish();
    write_output(options_.json ? to_json().dump() + "\n" : to_text());
    return 0;
  }

 private:
  static int32_t largest(const std::vector<int32_t>& values) { return *std::max_element(values.begin(), values.end()); }

  void measure(const Shape& shape) {
    const size_t first = rows_.size();
    for (BenchMode& mode : modes_) {
      progress_.begin(label(mode, shape) + ": first");
      rows_.push_back({mode.name, shape});
      warm_up(mode, shape);
    }
    limits_.begin();
    for (int32_t round = 0; round < options_.rounds; ++round) {
      limits_.measure(2);
      for (size_t i = 0; i < modes_.size(); ++i) {
        progress_.begin(label(modes_[i], shape));
        measure_once(modes_[i], rows_[first + i]);
      }
    }
    const double fastest_prefill = fastest_of(rows_, first, [](const Row& row) { return row.prefill(); });
    const double fastest_decode = fastest_of(rows_, first, [](const Row& row) { return row.decode(); });
    for (size_t i = first; i < rows_.size(); ++i) {
      rows_[i].prefill_share = prefill_share(shape, rows_[i].prefill(), fastest_prefill);
      if (rows_[i].decode_seconds.empty()) continue;
      rows_[i].decode_share =
          LimitShare(limits_.step_seconds(shape.batch, shape.batch),
                     limits_.best_step_seconds(shape.batch, shape.batch), rows_[i].decode(), fastest_decode);
    }
  }

  /// Of the steps that read the prompts; a step yields the logits of each prompt that it touches.
  LimitShare prefill_share(const Shape& shape, double run, double fastest) const {
    const int64_t most = options_.session.max_prefill_tokens;
    const int64_t tokens = int64_t{shape.batch} * shape.input_length;
    double seconds = 0, best = 0;
    for (int64_t at = 0; at < tokens; at += most) {
      const int64_t end = std::min(at + most, tokens);
      const int64_t rows = (end - 1) / shape.input_length - at / shape.input_length + 1;
      seconds += limits_.step_seconds(end - at, rows);
      best += limits_.best_step_seconds(end - at, rows);
    }
    return LimitShare(seconds, best, run, fastest);
  }

  static std::string label(const BenchMode& mode, const Shape& shape) {
    return fmt::format("{}, batch {}, {} + {} tokens", mode.name, shape.batch, shape.input_length, shape.output_length);
  }

  /// Traces, captures, and grows what grows.
  static void warm_up(BenchMode& mode, const Shape& shape) {
    OneBatch batch(*mode.engine, shape);
    batch.prefill();
    if (shape.output_length > 1) batch.decode(1);
  }

  static void measure_once(BenchMode& mode, Row& row) {
    OneBatch batch(*mode.engine, row.shape);
    row.prefill_seconds.push_back(seconds_of([&] { batch.prefill(); }));
    double total = row.prefill_seconds.back();
    for (int32_t index = 1; index < row.shape.output_length; ++index) {
      row.decode_seconds.push_back(seconds_of([&] { batch.decode(index); }));
      total += row.decode_seconds.back();
    }
    row.total_seconds.push_back(total);
  }

  std::string to_text() const {
    std::string text = fmt::format("one batch, medians of {} rounds\n{}\n", options_.rounds, subject_);
    for (const Row& row : rows_) {
      text += fmt::format("\n{}: batch size {}, input length {}, output length {}\n", row.mode, row.shape.batch,
                          row.shape.input_length, row.shape.output_length);
      text += fmt::format("Prefill. latency: {:6.5f} s, throughput: {:9.2f} token/s\n", row.prefill(),
                          row.prefill_throughput());
      if (!row.decode_seconds.empty()) {
        text += fmt::format("Decode.  median latency: {:6.5f} s, median throughput: {:9.2f} token/s\n", row.decode(),
                            row.decode_throughput());
      }
      text +=
          fmt::format("Total. latency: {:6.3f} s, throughput: {:9.2f} token/s\n", row.total(), row.total_throughput());
      text += "Of the limit: prefill " + row.prefill_share.to_text();
      if (!row.decode_seconds.empty()) text += ", decode " + row.decode_share.to_text();
      text += "\n";
    }
    const auto is_disturbed = [](const Row& row) {
      return row.prefill_share.is_disturbed() || row.decode_share.is_disturbed();
    };
    text += "\n" + LimitShare::remark(std::any_of(rows_.begin(), rows_.end(), is_disturbed));
    for (const BenchMode& mode : modes_) {
      text += fmt::format("{}: decode steps {}; prefill steps {}\n", mode.name,
                          steps_text(mode.engine->runner().counters(), replay::StepKind::kDecode),
                          steps_text(mode.engine->runner().counters(), replay::StepKind::kPrefill));
    }
    return text;
  }

  /// null where the device has no limit to compare with.
  static Json share_json(const LimitShare& share) { return share.is_measured() ? Json(share.value()) : Json(); }

  Json to_json() const {
    Json json{{"bench", "batch"},
              {"subject", subject_},
              {"rounds", options_.rounds},
              {"results", Json::array()},
              {"decode_steps", Json::object()},
              {"prefill_steps", Json::object()}};
    for (const Row& row : rows_) {
      Json result{{"mode", row.mode},
                  {"batch_size", row.shape.batch},
                  {"input_len", row.shape.input_length},
                  {"output_len", row.shape.output_length},
                  {"prefill_latency", row.prefill()},
                  {"prefill_throughput", row.prefill_throughput()},
                  {"prefill_share_of_limit", share_json(row.prefill_share)},
                  {"prefill_limit_disturbed", row.prefill_share.is_disturbed()}};
      if (!row.decode_seconds.empty()) {
        result["median_decode_latency"] = row.decode();
        result["median_decode_throughput"] = row.decode_throughput();
        result["decode_share_of_limit"] = share_json(row.decode_share);
        result["decode_limit_disturbed"] = row.decode_share.is_disturbed();
      }
      result["total_latency"] = row.total();
      result["overall_throughput"] = row.total_throughput();
      json["results"].push_back(std::move(result));
    }
    for (const BenchMode& mode : modes_) {
      json["decode_steps"][mode.name] =
          Json::parse(steps_json(mode.engine->runner().counters(), replay::StepKind::kDecode));
      json["prefill_steps"][mode.name] =
          Json::parse(steps_json(mode.engine->runner().counters(), replay::StepKind::kPrefill));
    }
    return json;
  }

  const BatchOptions& options_;
  Session session_;
  BenchLimits limits_;
  std::vector<BenchMode> modes_;
  std::string subject_ = bench_subject(session_);
  BenchProgress progress_{modes_.size() * options_.batch_sizes.size() * options_.input_lengths.size() *
                          options_.output_lengths.size() * (1 + static_cast<size_t>(options_.rounds))};
  std::vector<Row> rows_;
};

int run_batch(const BatchOptions& options) {
  require_at_least("--batch-size", options.batch_sizes, 1);
  // A prompt of a single token would be a decode step.
  require_at_least("--input-len", options.input_lengths, 2);
  require_at_least("--output-len", options.output_lengths, 1);
  require_at_least("--rounds", options.rounds, 1);
  return BatchBench(options).run();
}

}  // namespace

void add_bench_batch(CommandLine& bench) {
  CommandLine& command =
      bench.command("batch", "One batch from its prompts to its last tokens, over sizes and lengths");
  const auto options = std::make_shared<BatchOptions>();
  options->add_subject(command);
  options->add_modes(command);
  command.option("--batch-size", options->batch_sizes, "sequences of a batch; several sizes are measured in turn");
  command.option("--input-len", options->input_lengths, "tokens of each prompt; with several, each with each size");
  command.option("--output-len", options->output_lengths,
                 "tokens of each output, the first of which the prompt's step yields; with several, each with each");
  options->add_rest(command);
  command.footer(
      "Every mode runs every batch in each round. Prefill is the median round, decode the median step, total the\n"
      "median round from the first prompt to the last token, as SGLang's bench_one_batch counts them.");
  command.on_run([options] { return run_batch(*options); });
}

}  // namespace reprise::cli
