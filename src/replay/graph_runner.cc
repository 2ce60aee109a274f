#include "replay/graph_runner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "device/device_lost.h"
#include "device/observer.h"
#include "ops/eager_dispatcher.h"
#include "ops/in_place.h"
#include "replay/capture_demand.h"
#include "replay/profile.h"
#include "replay/static_inputs.h"
#include "replay/step_captures.h"
#include "replay/step_program.h"

namespace reprise::replay {

namespace {

CaptureOptions capture_options(const ops::Registry& registry, const RunnerOptions& options) {
  CaptureOptions result;
  if (options.mode == Mode::kPiecewise)
    result.splitting_ops = ops::with_in_place_variants(registry, options.splitting_ops);
  result.mode = options.capture_error_mode;
  return result;
}

/// How often a graph is replayed for a profile of its capture.
constexpr int kProfiledReplays = 2;

/// What profiles call a step: "decode step of 8"; empty when nobody watches.
std::string step_span_name(const device::Device& device, const StepBatch& batch) {
  if (device.observer() == nullptr) return {};
  return batch.kind() == StepKind::kDecode ? fmt::format("{} {}", kDecodeStepSpan, batch.sequences())
                                           : fmt::format("{} {} tokens", kPromptStepSpan, batch.tokens());
}

}  // namespace

/// A step between issue() and await().
struct IssuedStep {
  std::optional<device::HostSpan> span;
  const float* logits = nullptr;  ///< on the host, once they are there
  int32_t rows = 0;
  StepProgram* retraced = nullptr;  ///< to be traced again when the step is done
};

class GraphRunner::Implementation {
 public:
  Implementation(const ops::Registry& registry, device::Device& device, StepMethod method, int32_t vocabulary,
                 ParameterNames names, RunnerOptions options)
      : registry_(registry),
        device_(device),
        method_([this, inner = std::move(method)](ops::ForwardContext& context) {
          ++method_calls_;
          return inner(context);
        }),
        vocabulary_(vocabulary),
        names_(std::move(names)),
        options_(std::move(options)),
        buckets_(choose_buckets(options_.buckets)),
        prefill_sizes_(choose_prefill_sizes(options_.prefill_graph_tokens, options_.max_prefill_tokens)),
        stream_(device.create_stream({0, "steps"})),
        eager_(registry, device, *stream_),
        eager_inputs_(device, eager_limits(), options_.poison),
        captures_(device, *stream_, options_, buckets_, prefill_sizes_, capture_options(registry, options_),
                  [this](StepKind kind) -> StepProgram& { return program_of(kind); }) {
    if (options_.capture_limit < 1) {
      throw Error(ErrorCode::kInvalidArgument, "capture_limit is {}, must be at least 1", options_.capture_limit);
    }
    eager_.set_labels(labels_);
    DebugDump::make_root(options_.debug_directory);
    if (captures() && options_.scratch_slots < buckets_.back()) {
      throw Error(ErrorCode::kInvalidArgument, "{} scratch slots cannot hold the {} rows of the largest graph batch",
                  options_.scratch_slots, buckets_.back());
    }
    if (!captures()) prefill_sizes_.clear();
  }

  void capture(std::span<const int32_t> wanted) {
    if (!captures()) return;
    std::vector<int32_t> sizes(wanted.begin(), wanted.end());
    if (sizes.empty()) sizes = buckets_;
    for (const int32_t size : sizes) {
      if (std::find(buckets_.begin(), buckets_.end(), size) == buckets_.end()) {
        throw Error(ErrorCode::kInvalidArgument, "{} is not one of the graph batch sizes", size);
      }
    }
    fit_buckets();
    // Steps of a size that was left out are padded to the next one.
    for (int32_t& size : sizes) size = bucket_for(buckets_, size);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    captures_.capture_series(StepKind::kDecode, sizes);
    for (const int32_t size : sizes) {
      if (device_.observer() != nullptr && captures_.find(StepKind::kDecode, size) != nullptr) replay_for_profile(size);
    }
  }

  void capture_prefill() { captures_.capture_series(StepKind::kPrefill, prefill_sizes_); }

  bool capture_wanted() { return captures_.capture_wanted(); }
  bool wants_capture() const { return captures_.wants_capture(); }

  void issue(const StepBatch& batch) {
    REPRISE_CHECK(!issued_);
    check(batch);
    issued_.emplace();
    if (batch.tokens() == 0) return;
    issued_->span.emplace(device_, step_span_name(device_, batch));
    end_unless_done([&] { issue_checked(batch); });
  }

  LogitsView await() {
    REPRISE_CHECK(issued_);
    if (issued_->rows > 0) end_unless_done([&] { wait_for_logits(); });
    const LogitsView logits = {issued_->logits, issued_->rows, vocabulary_};
    issued_.reset();
    return logits;
  }

  StepProgram& decode_program() {
    compile_decode();
    decode_->reserve();
    return *decode_;
  }

  /// Traced and optimised; its memory need not be there yet.
  StepProgram& compile_decode() {
    if (decode_ == nullptr) {
      const int32_t rows = captures() ? buckets_.back() : options_.buckets.max_running;
      decode_ = make_program("decode", rows, rows, false);
      captures_.add_arena_bytes(decode_->arena_bytes());
    }
    return *decode_;
  }

  const StepMemory& step_memory() {
    if (!step_memory_) step_memory_ = plan_step_memory();
    return *step_memory_;
  }

  StepMemory plan_step_memory() {
    StepMemory memory;
    const StepLimits limits = eager_limits();
    if (options_.mode == Mode::kEager) {
      memory.eager = eager_bytes(limits.tokens);
      return memory;
    }
    memory.decode = compile_decode().arena_bytes();
    memory.prompts = compile_prefill().arena_bytes();
    // Decode steps without a graph run eagerly, whatever the reason.
    if (captures()) memory.eager = eager_bytes(limits.sequences);
    return memory;
  }

  void reserve() {
    const StepMemory& memory = step_memory();
    if (memory.decode > 0) compile_decode().reserve();
    if (memory.prompts > 0) compile_prefill().reserve();
    // Given back at once: nobody else takes any from here on.
    device_.allocate(memory.eager + memory.small);
  }

  std::string program_text(int32_t bucket) {
    if (!captures()) {
      throw Error(ErrorCode::kFailedPrecondition, "mode {} captures nothing", name_of(options_.mode));
    }
    if (captures_.find(StepKind::kDecode, bucket) == nullptr) capture({&bucket, 1});
    const CaptureCache::Entry* entry = captures_.find(StepKind::kDecode, bucket);
    if (entry == nullptr) throw Error(ErrorCode::kFailedPrecondition, "batch size {} could not be captured", bucket);
    return entry->to_text();
  }

  std::string core_choice(StepKind kind, int32_t size) {
    const CaptureCache::Entry* entry = captures_.find(kind, size);
    return entry == nullptr ? std::string() : entry->core_choice();
  }

  device::Device& device() const { return device_; }
  const ops::LaunchLabels& labels() const { return labels_; }
  const StepCounters& counters() const { return counters_; }
  StepReason last_reason() const { return last_reason_; }
  const CaptureReport& report() const { return captures_.report(); }
  const std::vector<int32_t>& buckets() const { return buckets_; }
  const std::vector<int32_t>& prefill_sizes() const { return prefill_sizes_; }
  int64_t method_calls() const { return method_calls_; }
  int64_t operator_dispatches() const { return eager_.dispatches() + node_dispatches_; }

 private:
  void issue_checked(const StepBatch& batch) { batch.is_decode() ? issue_decode(batch) : issue_prefill(batch); }

  template <typename Work>
  void end_unless_done(Work work) {
    try {
      work();
    } catch (...) {
      // What the failed step has queued must not run later, when the static inputs hold another step.
      issued_.reset();
      finish_failed_step();
      throw;
    }
  }

  void count(StepKind kind, StepReason reason) {
    last_reason_ = reason;
    counters_.count(kind, reason);
  }

  void issue_prefill(const StepBatch& batch) {
    if (options_.mode == Mode::kEager) {
      count(StepKind::kPrefill, StepReason::kModeEager);
      return run_eager(batch);
    }
    StepReason reason = StepReason::kPrefill;
    if (batch.sequences() == 1 && !batch.all_logits &&
        std::binary_search(prefill_sizes_.begin(), prefill_sizes_.end(), batch.tokens())) {
      reason = replay(StepKind::kPrefill, batch.tokens(), batch);
    }
    count(StepKind::kPrefill, reason);
    if (reason == StepReason::kReplayed) return;
    StepProgram& program = batch.all_logits ? all_logits_program() : prefill_program();
    run_nodes(program, *program.bind(batch.tokens(), batch.sequences()), batch);
  }

  /// While the step's exception is handled. Throws DeviceLost when the stream does not come to its end: then no other
  /// step would either.
  void finish_failed_step() {
    std::string failure;
    const auto attempt = [&failure](const auto& end) {
      try {
        end();
        return true;
      } catch (const device::DeviceLost&) {
        throw;
      } catch (const std::exception& error) {
        failure = error.what();
        log_debug("ending a step that failed: {}", failure);
        return false;
      }
    };
    attempt([] { throw; });
    attempt([&] { eager_.finish_method(); });
    send_all_inputs();
    const auto synchronize = [&] { stream_->synchronize(); };
    // The error of its work is told once; by a device that is lost for ever.
    if (attempt(synchronize) || attempt(synchronize)) return;
    throw device::DeviceLost(
        Error(ErrorCode::kInternal, "after a step that failed the device does not go on: {}", failure));
  }

  /// Copies of a step that failed may have been lost.
  void send_all_inputs() {
    eager_inputs_.send_all();
    for (StepProgram* program : {decode_.get(), prefill_.get(), all_logits_.get()}) {
      if (program != nullptr) program->inputs().send_all();
    }
  }

  /// Leaves out batch sizes for whose graphs the device has no room; before the first of them is captured.
  void fit_buckets() {
    if (std::exchange(fitted_, true) || !device_.capabilities().limited_captures) return;
    const device::UpdateOrder order = options_.update_order.value_or(device_.capabilities().preferred_update_order);
    device::CaptureBudget budget;
    try {
      budget = device_.plan_captures(capture_demand(decode_program().executable().graph(), device_.name(),
                                                    capture_options(registry_, options_).splitting_ops,
                                                    order == device::UpdateOrder::kReplayThenUpdate, buckets_));
    } catch (const std::exception& error) {
      log_warning("how many batch sizes the device can hold as captured graphs is not known: {}", error.what());
      return;
    }
    captures_.set_budget(budget.text);
    if (budget.sizes.size() == buckets_.size()) return;
    // One is tried in any case: a capture that fails tells why, and costs its size alone.
    buckets_ = budget.sizes.empty() ? std::vector<int32_t>{buckets_.back()} : std::move(budget.sizes);
    log_warning("{}; batch sizes that are left: {}", budget.text, fmt::join(buckets_, ", "));
  }

  bool captures() const { return replay::captures(options_.mode); }

  StepLimits eager_limits() const {
    const int32_t sequences = options_.buckets.max_running;
    return {std::max(options_.max_prefill_tokens, sequences), sequences, options_.max_pages, options_.sequence_state};
  }

  std::unique_ptr<StepProgram> make_program(std::string name, int32_t tokens, int32_t sequences, bool all_logits) {
    StepProgram::Options options;
    options.name = std::move(name);
    options.limits = {tokens, sequences, options_.max_pages, options_.sequence_state};
    options.all_logits = all_logits;
    options.optimise = options_.mode != Mode::kAotEager;
    options.passes = options_.passes;
    options.debug_directory = options_.debug_directory;
    options.poison = options_.poison;
    options.labels = &labels_;
    return std::make_unique<StepProgram>(registry_, device_, method_, names_, std::move(options));
  }

  /// What the model's own operators have at a time in a step of so many tokens; blocks are up to a quarter larger than
  /// what is asked for.
  size_t eager_bytes(int32_t tokens) const {
    const StepLimits limits = eager_limits();
    StepProgram::Options options;
    options.name = "eager";
    options.limits = {tokens, std::min(tokens, limits.sequences), limits.pages, limits.sequence_state};
    options.optimise = false;
    const size_t bytes = StepProgram(registry_, device_, method_, names_, std::move(options)).arena_bytes();
    return bytes + bytes / 4;
  }

  StepProgram& prefill_program() {
    compile_prefill();
    prefill_->reserve();
    return *prefill_;
  }

  StepProgram& compile_prefill() {
    const StepLimits limits = eager_limits();
    if (prefill_ == nullptr) {
      prefill_ = make_program("prefill", limits.tokens, limits.sequences, false);
      if (!prefill_sizes_.empty()) captures_.add_arena_bytes(prefill_->arena_bytes());
    }
    return *prefill_;
  }

  StepProgram& all_logits_program() {
    const StepLimits limits = eager_limits();
    if (all_logits_ == nullptr) all_logits_ = make_program("all_logits", limits.tokens, limits.sequences, true);
    all_logits_->reserve();
    return *all_logits_;
  }

  void check(const StepBatch& batch) const {
    const StepLimits limits = eager_limits();
    const auto fail = [](std::string what) { throw Error(ErrorCode::kInvalidArgument, "step batch: {}", what); };
    const size_t tokens = batch.token_ids.size();
    const size_t sequences = batch.query_lengths.size();
    if (batch.positions.size() != tokens || batch.slots.size() != tokens) fail("lists of tokens differ in length");
    if (batch.kv_lengths.size() != sequences) fail("lists of sequences differ in length");
    if (options_.sequence_state && batch.sequence_slots.size() != sequences) fail("sequence slots are missing");
    if (batch.block_tables.size() != sequences * static_cast<size_t>(batch.max_pages)) {
      fail("block tables are not sequences x pages");
    }
    if (batch.max_pages > limits.pages) {
      fail(fmt::format("{} pages in one sequence, at most {} fit", batch.max_pages, limits.pages));
    }
    if (batch.tokens() > limits.tokens) fail(fmt::format("{} tokens, at most {}", tokens, limits.tokens));
    if (batch.sequences() > limits.sequences)
      fail(fmt::format("{} sequences, at most {}", sequences, limits.sequences));
    int64_t sum = 0;
    for (size_t i = 0; i < sequences; ++i) {
      if (batch.query_lengths[i] < 1 || batch.kv_lengths[i] < batch.query_lengths[i]) {
        fail(fmt::format("sequence {} has {} new tokens of {}", i, batch.query_lengths[i], batch.kv_lengths[i]));
      }
      sum += batch.query_lengths[i];
    }
    if (sum != static_cast<int64_t>(tokens)) fail("query lengths do not add up to the tokens");
  }

  void issue_decode(const StepBatch& batch) {
    if (!captures()) {
      count(batch.kind(), StepReason::kModeEager);
      return options_.mode == Mode::kEager ? run_eager(batch) : run_nodes(decode_program(), bound_decode(batch), batch);
    }
    fit_buckets();
    const int32_t rows = batch.sequences();
    const int32_t bucket = bucket_for(buckets_, rows);
    StepReason reason = StepReason::kAboveLargestBucket;
    if (bucket != 0) {
      const bool fits = options_.buckets.padding || bucket == rows;
      reason = fits ? replay(StepKind::kDecode, bucket, batch) : StepReason::kNoExactBucket;
    }
    count(batch.kind(), reason);
    if (reason == StepReason::kReplayed) return;
    log_once(reason, rows);
    run_eager(batch);
  }

  /// Queues the replay of a step at a size that is captured, now if need be. Another reason than kReplayed when it must
  /// run eagerly.
  StepReason replay(StepKind kind, int32_t size, const StepBatch& batch) {
    const auto [entry, missing] = captures_.find_for(kind, size, batch);
    if (entry == nullptr) return missing;
    StepProgram& program = program_of(kind);
    const int32_t sequences = StepCaptures::sequences_of(kind, size);
    program.inputs().write(*stream_, batch, size, sequences);
    if (options_.poison) program.poison_arena(*stream_);
    const StepReason reason = captures_.replay(kind, size, *entry, program.inputs().lists(sequences));
    if (reason != StepReason::kReplayed) return reason;
    node_dispatches_ += entry->eager_nodes();
    queue_logits(entry->bound->outputs()[0], batch.sequences());
    if (options_.retrace_every > 0 && ++replays_ % options_.retrace_every == 0) issued_->retraced = &program;
    return StepReason::kReplayed;
  }

  void run_eager(const StepBatch& batch) {
    eager_inputs_.write(*stream_, batch, batch.tokens(), batch.sequences());
    ops::ForwardContext context(eager_);
    eager_inputs_.bind(context, batch.tokens(), batch.sequences(), batch.all_logits);
    eager_logits_ = method_(context);
    eager_.finish_method();
    queue_logits(eager_logits_, batch.all_logits ? batch.tokens() : batch.sequences());
  }

  /// A decode step's graph is bound once for each batch size: the steps of a request come by the hundred.
  compile::BoundGraph& bound_decode(const StepBatch& batch) {
    std::unique_ptr<compile::BoundGraph>& bound = bound_decodes_[batch.sequences()];
    if (bound == nullptr) bound = decode_program().bind(batch.tokens(), batch.sequences());
    return *bound;
  }

  void run_nodes(StepProgram& program, compile::BoundGraph& bound, const StepBatch& batch) {
    program.inputs().write(*stream_, batch, batch.tokens(), batch.sequences());
    if (options_.poison) program.poison_arena(*stream_);
    node_dispatches_ += bound.size();
    bound.run(*stream_, program.inputs().lists(batch.sequences()));
    queue_logits(bound.outputs()[0], batch.all_logits ? batch.tokens() : batch.sequences());
  }

  /// Sees to it that the step's logits can be read once it is done.
  void queue_logits(const Tensor& logits, int32_t rows) {
    issued_->rows = rows;
    if (device_.capabilities().host_addressable) {
      issued_->logits = logits.data_as<const float>();
      return;
    }
    const size_t bytes = static_cast<size_t>(rows) * static_cast<size_t>(vocabulary_) * sizeof(float);
    if (host_logits_ == nullptr || host_logits_->bytes() < bytes) {
      host_logits_ = device_.allocate(bytes, device::MemoryKind::kPinnedHost);
    }
    stream_->copy_async(host_logits_->data(), logits.data(), bytes, device::CopyKind::kDeviceToHost);
    issued_->logits = static_cast<const float*>(host_logits_->data());
  }

  void wait_for_logits() {
    {
      const device::HostSpan span(device_, "synchronize");
      stream_->synchronize();
    }
    if (issued_->retraced != nullptr) issued_->retraced->check_retrace();
  }

  /// A profile of captures shows what was captured at work: replayed twice, as the warm-ups of other engines are, with
  /// rows that attend to one token of scratch memory each. These are no steps, and are not counted.
  void replay_for_profile(int32_t size) {
    StepBatch batch;
    batch.max_pages = 1;
    for (int32_t i = 0; i < size; ++i) {
      batch.token_ids.push_back(0);
      batch.positions.push_back(0);
      batch.slots.push_back(i);
      batch.query_lengths.push_back(1);
      batch.kv_lengths.push_back(1);
      batch.block_tables.push_back(0);
      if (options_.sequence_state) batch.sequence_slots.push_back(i);
    }
    for (int i = 0; i < kProfiledReplays; ++i) {
      issued_.emplace();
      issued_->span.emplace(device_, step_span_name(device_, batch));
      end_unless_done([&] {
        replay(StepKind::kDecode, size, batch);
        wait_for_logits();
      });
      issued_.reset();
    }
  }

  StepProgram& program_of(StepKind kind) { return kind == StepKind::kDecode ? decode_program() : prefill_program(); }

  void log_once(StepReason reason, int32_t rows) {
    if (reason == StepReason::kNotCapturedYet || reason == StepReason::kCaptureLimit) return;  // told by the captures
    if (!logged_.insert(reason).second) return;
    std::string sizes;
    if (reason == StepReason::kAboveLargestBucket) {
      sizes =
          fmt::format(" (graph batch sizes up to {}; --graph-bs or --graph-max-bs give larger ones)", buckets_.back());
    } else if (reason == StepReason::kNoExactBucket) {
      sizes = fmt::format(" (graph batch sizes {})", fmt::join(buckets_, ", "));
    }
    log_warning("decode step of {} sequences runs eagerly, with the model's own operators: {}{}; logged once", rows,
                name_of(reason), sizes);
  }

  const ops::Registry& registry_;
  device::Device& device_;
  CountedMethod method_;
  int32_t vocabulary_;
  ParameterNames names_;
  RunnerOptions options_;
  std::vector<int32_t> buckets_;
  bool fitted_ = false;  ///< the buckets have been held against what the device can capture
  std::vector<int32_t> prefill_sizes_;
  ops::LaunchLabels labels_;  // before all that launches
  std::unique_ptr<device::Stream> stream_;
  ops::EagerDispatcher eager_;
  StaticInputs eager_inputs_;
  std::unique_ptr<StepProgram> decode_, prefill_, all_logits_;
  std::optional<StepMemory> step_memory_;
  std::map<int32_t, std::unique_ptr<compile::BoundGraph>> bound_decodes_;  ///< by batch size
  StepCaptures captures_;  // after the programs: captured graphs go before the memory that they name
  std::set<StepReason> logged_;
  StepCounters counters_;
  StepReason last_reason_ = StepReason::kModeEager;
  std::optional<IssuedStep> issued_;
  Tensor eager_logits_;
  std::shared_ptr<Storage> host_logits_;
  int64_t method_calls_ = 0;
  int64_t node_dispatches_ = 0;
  int64_t replays_ = 0;
};

GraphRunner::GraphRunner(const ops::Registry& registry, device::Device& device, StepMethod method, int32_t vocabulary,
                         std::vector<std::pair<std::string, Tensor>> names, RunnerOptions options)
    : implementation_(std::make_unique<Implementation>(registry, device, std::move(method), vocabulary,
                                                       std::move(names), std::move(options))) {}

GraphRunner::~GraphRunner() = default;

void GraphRunner::capture(std::span<const int32_t> sizes) { implementation_->capture(sizes); }

void GraphRunner::capture_prefill() { implementation_->capture_prefill(); }

bool GraphRunner::capture_wanted() { return implementation_->capture_wanted(); }

bool GraphRunner::wants_capture() const { return implementation_->wants_capture(); }

StepMemory GraphRunner::step_memory() { return implementation_->step_memory(); }

void GraphRunner::reserve() { implementation_->reserve(); }

LogitsView GraphRunner::run(const StepBatch& batch) {
  implementation_->issue(batch);
  return implementation_->await();
}

void GraphRunner::issue(const StepBatch& batch) { implementation_->issue(batch); }

LogitsView GraphRunner::await() { return implementation_->await(); }

device::Device& GraphRunner::device() const { return implementation_->device(); }

const ops::LaunchLabels& GraphRunner::labels() const { return implementation_->labels(); }

const StepCounters& GraphRunner::counters() const { return implementation_->counters(); }

StepReason GraphRunner::last_reason() const { return implementation_->last_reason(); }

const CaptureReport& GraphRunner::capture_report() const { return implementation_->report(); }

const std::vector<int32_t>& GraphRunner::buckets() const { return implementation_->buckets(); }

const std::vector<int32_t>& GraphRunner::prefill_sizes() const { return implementation_->prefill_sizes(); }

int64_t GraphRunner::method_calls() const { return implementation_->method_calls(); }

int64_t GraphRunner::operator_dispatches() const { return implementation_->operator_dispatches(); }

const graph::Graph& GraphRunner::decode_graph() { return implementation_->decode_program().executable().graph(); }

const std::vector<compile::PassReport>& GraphRunner::decode_pass_reports() {
  return implementation_->decode_program().pass_reports();
}

std::string GraphRunner::core_choice(StepKind kind, int32_t size) const {
  return implementation_->core_choice(kind, size);
}

std::string GraphRunner::program_text(int32_t bucket) { return implementation_->program_text(bucket); }

}  // namespace reprise::replay
