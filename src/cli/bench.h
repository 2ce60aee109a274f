#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress_bar.h"
#include "cli/command_line.h"
#include "cli/limit_share.h"
#include "cli/session.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/step_builder.h"

namespace reprise::cli {

// What the benchmarks share.

/// Each adds one command below `reprise bench`.
void add_bench_replay(CommandLine& bench);
void add_bench_decode(CommandLine& bench);
void add_bench_prefill(CommandLine& bench);
void add_bench_kernels(CommandLine& bench);
void add_bench_batch(CommandLine& bench);
void add_bench_serve(CommandLine& bench);
void add_bench_one_batch_server(CommandLine& bench);
void add_bench_launches(CommandLine& bench);

/// The options that every benchmark has.
struct BenchOptions {
  SessionOptions session;
  std::vector<std::string> modes = {"eager", "full"};
  int32_t rounds = 10;
  bool json = false;

  /// --model; `required`: see SessionOptions::add_model().
  void add_subject(CommandLine& command, bool required = true);
  void add_modes(CommandLine& command);
  /// All that follows a benchmark's own options.
  void add_rest(CommandLine& command);
};

/// Those of benchmarks that repeat one decode step.
struct DecodeStepOptions : BenchOptions {
  int32_t context = 128;
  int32_t steps = 16;

  void add_steps(CommandLine& command);
  /// Throws kInvalidArgument, naming the option that is out of range.
  void check() const;
};

/// Throws kInvalidArgument, naming the option, for a value below `least`.
void require_at_least(const char* option, int64_t value, int64_t least);
void require_at_least(const char* option, const std::vector<int32_t>& values, int64_t least);

/// The middle value, or the mean of the two middle ones; 0 without values.
double median(std::vector<double> values);

/// Seconds that a call takes.
template <typename Function>
double seconds_of(Function&& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The smallest median of the rows from `first` on, of what `median_of` gives of a row.
template <typename Row, typename MedianOf>
double fastest_of(const std::vector<Row>& rows, size_t first, MedianOf&& median_of) {
  double fastest = median_of(rows[first]);
  for (size_t i = first + 1; i < rows.size(); ++i) fastest = std::min<double>(fastest, median_of(rows[i]));
  return fastest;
}

/// A progress bar over the parts of a benchmark. It draws between them, not in what is measured.
class BenchProgress {
 public:
  explicit BenchProgress(size_t parts) : parts_(parts) {}
  /// The next part begins.
  void begin(const std::string& part) { bar_.update(static_cast<double>(begun_++), static_cast<double>(parts_), part); }
  void finish() { bar_.finish(); }

 private:
  size_t parts_;
  size_t begun_ = 0;
  ProgressBar bar_;
};

/// Rows of text in aligned columns, the first to the left, the others to the right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string to_text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// One mode of a benchmark, with an engine of its own; all share the model.
struct BenchMode {
  std::string name;  ///< of a mode, or "full_no_passes"
  std::unique_ptr<engine::Engine> engine;
};

/// What --modes may name: the modes that are built, and "full_no_passes", which is mode full with every pass off.
inline const std::vector<std::string> kBenchModes = {"eager", "aot_eager",      "force_eager",
                                                     "full",  "full_no_passes", "piecewise"};

/// An engine for each named mode, without a tokenizer, with room for `sequences` of `tokens` tokens. Other kernels than
/// the session's may be given; they must outlive the engines.
std::vector<BenchMode> make_bench_modes(Session& session, const std::vector<std::string>& modes, int32_t sequences,
                                        int64_t tokens, const ops::Registry* kernels = nullptr);

/// Random tokens with pages of their own for all of them, given back at the end.
class BenchSequence {
 public:
  BenchSequence(engine::Engine& engine, int32_t tokens, uint64_t seed);
  ~BenchSequence();
  BenchSequence(BenchSequence&& other) noexcept;
  BenchSequence& operator=(BenchSequence&&) = delete;

  std::vector<int32_t>& tokens() { return tokens_; }
  std::span<const int32_t> pages() const { return pages_; }
  int32_t slot() const { return slot_; }
  /// Runs the prefill steps that read the first `length` tokens, in chunks as the engine makes them.
  void read(engine::StepBuilder& builder, int32_t length);

 private:
  engine::Engine* engine_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> pages_;
  int32_t slot_ = -1;
};

/// Decode steps at one context length: every step reads the same number of tokens and writes the same slots, so that
/// any number of them may be measured. The token that a step samples goes into the next.
class DecodeSteps {
 public:
  /// `context`: tokens that the steps attend to, with their own. Reads the prompts.
  DecodeSteps(engine::Engine& engine, int32_t batch, int32_t context);
  /// From forming the batch to the sampled tokens.
  void step();

 private:
  engine::Engine& engine_;
  int32_t context_;
  std::vector<BenchSequence> sequences_;
  engine::StepBuilder builder_;
  engine::Sampler sampler_;
  engine::SamplingParameters greedy_;
};

/// "NAME, 5 layers, bfloat16; DEVICE": what was measured, on what.
std::string bench_subject(Session& session);

}  // namespace reprise::cli
