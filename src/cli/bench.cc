#include "cli/bench.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "api/devices.h"
#include "base/error.h"
#include "base/random.h"
#include "cli/commands.h"
#include "cli/statement.h"

namespace reprise::cli {

void BenchOptions::add_subject(CommandLine& command, bool required) { session.add_model(command, required); }

void BenchOptions::add_modes(CommandLine& command) {
  command.choices("--modes", modes, kBenchModes, "what to compare; full_no_passes: mode full with every pass off");
  session.add_profile(command);
}

void BenchOptions::add_rest(CommandLine& command) {
  command.option("--rounds", rounds, "rounds; in each every mode has its turn");
  command.flag("--json", json, "print one JSON object");
  session.add_device(command);
  session.add_engine(command);
  session.add_captures(command);
}

void DecodeStepOptions::add_steps(CommandLine& command) {
  command.option("--input-len", context, "tokens of each sequence, which the steps attend to");
  command.option("--steps,--output-len", steps, "decode steps of a round");
}

void DecodeStepOptions::check() const {
  require_at_least("--input-len", context, 2);
  require_at_least("--steps", steps, 1);
  require_at_least("--rounds", rounds, 1);
}

void require_at_least(const char* option, int64_t value, int64_t least) {
  if (value < least) throw Error(ErrorCode::kInvalidArgument, "{} is {}, must be at least {}", option, value, least);
}

void require_at_least(const char* option, const std::vector<int32_t>& values, int64_t least) {
  if (values.empty()) throw Error(ErrorCode::kInvalidArgument, "{} is empty", option);
  for (const int32_t value : values) require_at_least(option, value, least);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string TextTable::to_text() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    text += "\n";
  }
  return text;
}

std::vector<BenchMode> make_bench_modes(Session& session, const std::vector<std::string>& modes, int32_t sequences,
                                        int64_t tokens, const ops::Registry* kernels) {
  const int64_t maximum = session.model()->info().max_positions;
  if (tokens > maximum) {
    throw Error(ErrorCode::kInvalidArgument, "a context of {} tokens exceeds the model's {}", tokens, maximum);
  }
  const int64_t page_size = session.page_size();
  const int64_t pages = (tokens + page_size - 1) / page_size;
  std::vector<BenchMode> result;
  for (const std::string& name : modes) {
    const bool without_passes = name == "full_no_passes";
    const replay::Mode mode = without_passes ? replay::Mode::kFull : parse_mode(name);
    engine::EngineOptions options =
        session.engine_options(sequences, int64_t{sequences} * pages * page_size, static_cast<int32_t>(tokens), mode);
    if (without_passes) options.passes = compile::PassOptions::none();
    const bool is_profiled = !options.capture_profile_directory.empty();
    if (is_profiled && without_passes) {
      options.capture_profile_directory = options.capture_profile_directory.parent_path().parent_path() / name /
                                          options.capture_profile_directory.filename();
    }
    result.push_back({name, engine::Engine::create(session.device(), kernels == nullptr ? session.registry() : *kernels,
                                                   session.model(), std::nullopt, std::move(options))});
    if (is_profiled) result.back().engine->capture(sequences);
  }
  return result;
}

BenchSequence::BenchSequence(engine::Engine& engine, int32_t tokens, uint64_t seed) : engine_(&engine) {
  const auto vocabulary = static_cast<uint64_t>(engine.model().info().vocabulary);
  tokens_.reserve(static_cast<size_t>(tokens));
  for (int32_t i = 0; i < tokens; ++i) {
    tokens_.push_back(static_cast<int32_t>(random_bits(seed, static_cast<uint64_t>(i)) % vocabulary));
  }
  engine::KvPool& pool = engine.kv_pool();
  if (!pool.allocate(pool.pages_for(tokens), pages_)) {
    throw Error(ErrorCode::kResourceExhausted, "{} tokens do not fit into the KV cache", tokens);
  }
  if (pool.has_sequence_state()) slot_ = pool.allocate_sequence_slot();
}

BenchSequence::~BenchSequence() {
  if (engine_ == nullptr) return;
  engine_->kv_pool().release(pages_);
  if (slot_ >= 0) engine_->kv_pool().release_sequence_slot(slot_);
}

BenchSequence::BenchSequence(BenchSequence&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)),
      tokens_(std::move(other.tokens_)),
      pages_(std::move(other.pages_)),
      slot_(other.slot_) {}

void BenchSequence::read(engine::StepBuilder& builder, int32_t length) {
  const int32_t most = engine_->options().max_prefill_tokens;
  for (int32_t at = 0; at < length;) {
    const int32_t replayed = replay::largest_size_within(engine_->runner().prefill_sizes(), length - at);
    const int32_t count = replayed > 0 ? replayed : std::min(most, length - at);
    builder.begin();
    builder.add(std::span(tokens_).subspan(static_cast<size_t>(at), static_cast<size_t>(count)), at, pages_, slot_);
    engine_->run(builder.finish());
    at += count;
  }
}

DecodeSteps::DecodeSteps(engine::Engine& engine, int32_t batch, int32_t context)
    : engine_(engine),
      context_(context),
      builder_(engine.kv_pool()),
      sampler_(static_cast<int32_t>(engine.model().info().vocabulary)) {
  greedy_.temperature = 0;
  for (int32_t i = 0; i < batch; ++i) {
    sequences_.emplace_back(engine, context, static_cast<uint64_t>(i));
    sequences_.back().read(builder_, context - 1);
  }
}

void DecodeSteps::step() {
  builder_.begin();
  for (BenchSequence& sequence : sequences_) {
    builder_.add({&sequence.tokens().back(), 1}, context_ - 1, sequence.pages(), sequence.slot());
  }
  const replay::LogitsView logits = engine_.run(builder_.finish());
  for (int32_t row = 0; row < logits.rows; ++row) {
    sequences_[static_cast<size_t>(row)].tokens().back() =
        sampler_.sample(logits.row(row), greedy_, nullptr, 0, context_);
  }
}

std::string bench_subject(Session& session) {
  const model::ModelInfo& info = session.model()->info();
  const AutotuneReport* tuned = session.autotune_report();
  return fmt::format("{}: {} of {} layers, {}; {}{}", session.directory().string(), info.architecture, info.layers,
                     dtype_text(*session.model()), api::describe(session.device()),
                     tuned == nullptr ? "" : "; tuned: " + tuned->text());
}

void add_bench(CommandLine& program) {
  CommandLine& bench = program.command("bench", "Measure speed, several modes side by side");
  add_bench_decode(bench);
  add_bench_prefill(bench);
  add_bench_batch(bench);
  add_bench_replay(bench);
  add_bench_launches(bench);
  add_bench_kernels(bench);
  add_bench_serve(bench);
  add_bench_one_batch_server(bench);
}

}  // namespace reprise::cli
