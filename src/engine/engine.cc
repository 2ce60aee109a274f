#include "engine/engine.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include "base/cpu_topology.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/step_loop.h"
#include "ops/attention_support.h"
#include "replay/profile_recording.h"

namespace reprise::engine {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

int32_t require_positive(const char* field, int32_t value) {
  if (value < 1) throw Error(ErrorCode::kInvalidArgument, "{} is {}, but must be at least 1", field, value);
  return value;
}

// Reading logits from memory does not get faster by more.
constexpr int kMostSamplingThreads = 8;

// The most prompt tokens that a step can hold: a larger limit must not cost memory.
int32_t prefill_limit(const EngineOptions& options) {
  return static_cast<int32_t>(
      std::min<int64_t>(options.max_prefill_tokens, int64_t{options.max_running} * options.max_context));
}

// The given batch sizes that are not captured, in ascending order.
std::vector<int32_t> left_out_buckets(const replay::BucketOptions& options) {
  const std::vector<int32_t> chosen = replay::choose_buckets(options);
  std::set<int32_t> left_out(options.sizes.begin(), options.sizes.end());
  for (const int32_t size : chosen) left_out.erase(size);
  return {left_out.begin(), left_out.end()};
}

// Fills in what depends on the model and the device.
void complete(EngineOptions& options, const model::ModelInfo& info, device::Device& device, size_t token_bytes) {
  require_positive("max_running", options.max_running);
  if (options.max_running > kMostRunning) {
    throw Error(ErrorCode::kInvalidArgument, "max_running is {}, but must be at most {}", options.max_running,
                kMostRunning);
  }
  require_positive("max_prefill_tokens", options.max_prefill_tokens);
  require_positive("page_size", options.page_size);
  const auto longest = static_cast<int32_t>(std::min<int64_t>(info.max_positions, std::numeric_limits<int32_t>::max()));
  if (options.max_context == 0) options.max_context = longest;
  if (options.max_context < 1 || options.max_context > longest) {
    throw Error(ErrorCode::kInvalidArgument, "max_context is {}, but must be between 1 and the model's {}",
                options.max_context, longest);
  }
  if (options.retrace_every < 0) {
    throw Error(ErrorCode::kInvalidArgument, "retrace_every is {}, but must be at least 0", options.retrace_every);
  }
  if (options.kv_tokens < 0) {
    throw Error(ErrorCode::kInvalidArgument, "kv_tokens is {}, but must be at least 0", options.kv_tokens);
  }
  if (options.kv_tokens == 0) {
    const int64_t wanted = int64_t{options.max_running} * options.max_context;
    const size_t share = device.memory_info().available_bytes / 2 / std::max<size_t>(token_bytes, 1);
    options.kv_tokens = std::max<int64_t>(std::min<int64_t>(wanted, static_cast<int64_t>(share)), options.page_size);
    if (options.kv_tokens < wanted) {
      log_info("KV cache of {} tokens: half of the free memory; {} requests of {} tokens would take {}",
               options.kv_tokens, options.max_running, options.max_context, wanted);
    }
  }
  options.prefill_graph_tokens = replay::choose_prefill_sizes(options.prefill_graph_tokens, options.max_prefill_tokens);
  // No request can have a step of more tokens than its context.
  std::erase_if(options.prefill_graph_tokens, [&](int32_t size) { return size > options.max_context; });
  options.buckets.max_running = options.max_running;
  options.buckets.default_max = device.capabilities().default_max_graph_batch;
  if (const std::vector<int32_t> left_out = left_out_buckets(options.buckets);
      !left_out.empty() && replay::captures(options.mode)) {
    log_info("graph batch sizes that are left out: {}; {} is the largest that {}", fmt::join(left_out, ", "),
             replay::choose_buckets(options.buckets).back(),
             options.buckets.max_size > 0 && left_out.front() > options.buckets.max_size
                 ? fmt::format("the maximum of {} allows", options.buckets.max_size)
                 : fmt::format("at most {} requests at a time need", options.max_running));
  }
  if (!options.update_order) options.update_order = device.capabilities().preferred_update_order;
  if (!options.overlap) options.overlap = !device.capabilities().shares_host_cores;
  if (options.sampling_threads < 0) {
    throw Error(ErrorCode::kInvalidArgument, "sampling_threads is {}, but must be at least 0",
                options.sampling_threads);
  }
  if (options.sampling_threads == 0) {
    options.sampling_threads = *options.overlap ? std::min(usable_threads(), kMostSamplingThreads) : 1;
  }
}

bool has_int8_cache(const model::KvLayout& layout) {
  return std::any_of(layout.buffers.begin(), layout.buffers.end(),
                     [](const model::KvBuffer& buffer) { return buffer.dtype == DType::kI8; });
}

KvPoolOptions pool_options(const EngineOptions& options) {
  KvPoolOptions result;
  result.page_size = options.page_size;
  result.tokens = options.kv_tokens;
  result.sequences = options.max_running;
  result.scratch_slots = replay::choose_buckets(options.buckets).back();
  result.prefix_cache = options.prefix_cache;
  result.poison = options.poison;
  result.shuffle_seed = options.shuffle_pages;
  return result;
}

replay::RunnerOptions runner_options(const EngineOptions& options, const KvPool& pool) {
  replay::RunnerOptions result;
  result.mode = options.mode;
  result.buckets = options.buckets;
  result.max_prefill_tokens = prefill_limit(options);
  result.prefill_graph_tokens = options.prefill_graph_tokens;
  result.max_pages = std::min(pool.pages_for(options.max_context), pool.usable_pages());
  result.scratch_slots = pool.options().scratch_slots;
  result.sequence_state = pool.has_sequence_state();
  result.poison = options.poison;
  result.update_order = options.update_order;
  result.retrace_every = options.retrace_every;
  result.passes = options.passes;
  result.capture_limit = options.capture_limit;
  result.capture_at_once_milliseconds = options.capture_at_once_milliseconds;
  if (options.capture_error_mode) result.capture_error_mode = *options.capture_error_mode;
  result.force_recapture = options.force_recapture;
  result.splitting_ops = options.splitting_ops;
  result.debug_directory = options.debug_directory;
  result.progress = options.progress;
  return result;
}

std::vector<std::pair<std::string, Tensor>> graph_names(const model::Model& model, const KvPool& pool) {
  std::vector<std::pair<std::string, Tensor>> names = model.named_parameters();
  for (size_t i = 0; i < pool.tensors().size(); ++i) {
    names.emplace_back("kv." + pool.layout().buffers[i].name, pool.tensors()[i]);
  }
  return names;
}

StepLoopOptions loop_options(const EngineOptions& options, int32_t vocabulary, const replay::GraphRunner& runner) {
  StepLoopOptions result;
  result.scheduler = {options.max_running, prefill_limit(options), options.max_context, runner.prefill_sizes()};
  result.vocabulary = vocabulary;
  result.end_token_ids = options.end_token_ids;
  result.seed = options.seed;
  result.sampling_threads = options.sampling_threads;
  result.capture_seconds = [&runner] { return runner.capture_report().milliseconds / 1e3; };
  return result;
}

}  // namespace

// In the order of construction: the pool's tensors are bound into the runner's method, the runner into the loop's.
struct Engine::Parts {
  std::shared_ptr<const model::Model> model;
  EngineOptions options;
  int32_t vocabulary;
  KvPool pool;
  replay::GraphRunner runner;
  ExpertBalancer balancer;
  StepLoop loop;
  Statistics prompt_statistics = {};  // of prompt_logits(), whose steps are not the loop's
  StepLog step_log = {};
  Clock::time_point next_capture = {};
  std::unique_ptr<replay::ProfileRecording> profile = {};
  std::filesystem::path profile_directory = {};
  std::optional<std::string> profile_text = {};         // of a profile that is saved
  std::optional<Clock::time_point> last_step_end = {};  // absent: there was nothing to do since
  struct {
    StepRecord record;
    Clock::time_point begin;
    double capture_milliseconds;
  } issued = {};  // the step that runs

  Parts(device::Device& device, const ops::Registry& registry, std::shared_ptr<const model::Model> the_model,
        std::optional<text::Tokenizer> tokenizer, EngineOptions completed)
      : model(std::move(the_model)),
        options(std::move(completed)),
        vocabulary(static_cast<int32_t>(model->info().vocabulary)),
        pool(device, model->kv_layout(), pool_options(options)),
        runner(registry, device, method(), vocabulary, graph_names(*model, pool), runner_options(options, pool)),
        balancer(model->expert_places(), options.experts),
        loop(pool, step_function(), std::move(tokenizer), step_options()) {
    if (options.prefix_cache && !pool.has_prefix_cache()) {
      log_info("the prefix cache is off: the model keeps state for each sequence");
    }
  }

  replay::StepMethod method() {
    return [the_model = model.get(), tensors = pool.tensors()](ops::ForwardContext& context) {
      return the_model->forward(context, tensors);
    };
  }

  /// Captures what steps have gone without: at once while nothing else is to do, else one at a time, with as much time
  /// between two captures as the last one took.
  bool capture_wanted(bool idle) {
    const auto begin = Clock::now();
    if (!runner.wants_capture() || (!idle && begin < next_capture)) return false;
    loop.settle();  // a capture writes the inputs of steps
    const bool captured = runner.capture_wanted();
    const auto end = Clock::now();
    next_capture = end + (end - begin);
    return captured;
  }

  replay::LogitsView run(const replay::StepBatch& batch) {
    issue(batch);
    return await();
  }

  void issue(const replay::StepBatch& batch) {
    balancer.before_step();
    const auto begin = Clock::now();
    const double captured = runner.capture_report().milliseconds;
    runner.issue(batch);
    issued = {describe(batch), begin, runner.capture_report().milliseconds - captured};
  }

  replay::LogitsView await() {
    const replay::LogitsView logits = runner.await();
    const auto end = Clock::now();
    StepRecord& record = issued.record;
    record.milliseconds = static_cast<float>(milliseconds_between(issued.begin, end) - issued.capture_milliseconds);
    if (last_step_end) record.gap_milliseconds = static_cast<float>(milliseconds_between(*last_step_end, issued.begin));
    step_log.add(record);
    last_step_end = end;
    return logits;
  }

  StepRecord describe(const replay::StepBatch& batch) const {
    StepRecord record;
    record.index = step_log.last_index() + 1;
    record.kind = batch.kind();
    record.reason = runner.last_reason();
    record.replayed = record.reason == replay::StepReason::kReplayed;
    record.sequences = batch.sequences();
    record.tokens = batch.tokens();
    record.kv_tokens_used = pool.used_tokens();
    if (record.replayed) {
      record.bucket = batch.is_decode() ? replay::bucket_for(runner.buckets(), batch.sequences()) : batch.tokens();
    }
    return record;
  }

  StepFunction step_function() {
    return [this](const replay::StepBatch& batch) { return run(batch); };
  }

  StepLoopOptions step_options() {
    StepLoopOptions result = loop_options(options, vocabulary, runner);
    if (!*options.overlap) return result;
    result.asynchronous = {[this](const replay::StepBatch& batch) { issue(batch); }, [this] { return await(); }};
    return result;
  }

  /// What runs must not outlive what it runs on.
  ~Parts() {
    try {
      loop.settle();
    } catch (const std::exception& error) {
      log_debug("ending a step of an engine that goes: {}", error.what());
    }
  }
};

std::unique_ptr<Engine> Engine::create(device::Device& device, const ops::Registry& registry,
                                       std::shared_ptr<const model::Model> model,
                                       std::optional<text::Tokenizer> tokenizer, EngineOptions options) {
  REPRISE_CHECK(model != nullptr);
  const bool any_kv_tokens = options.kv_tokens == 0;
  complete(options, model->info(), device, model->kv_layout().bytes_per_token());
  ops::check_attention_support(registry, device.name(),
                               {.dtype = model->info().dtype,
                                .int8_cache = has_int8_cache(model->kv_layout()),
                                .page_size = options.page_size,
                                .prompts = options.max_prefill_tokens > 1});
  if (device.capabilities().fixed_memory) {
    return std::unique_ptr<Engine>(
        new Engine(make_fitting_parts(device, registry, model, tokenizer, std::move(options), any_kv_tokens)));
  }
  return std::unique_ptr<Engine>(new Engine(
      std::make_unique<Parts>(device, registry, std::move(model), std::move(tokenizer), std::move(options))));
}

std::unique_ptr<Engine::Parts> Engine::make_fitting_parts(device::Device& device, const ops::Registry& registry,
                                                          const std::shared_ptr<const model::Model>& model,
                                                          const std::optional<text::Tokenizer>& tokenizer,
                                                          EngineOptions options, bool any_kv_tokens) {
  const size_t free = device.memory_info().available_bytes;
  const size_t token_bytes = std::max<size_t>(model->kv_layout().bytes_per_token(), 1);
  const int64_t first_tokens = options.kv_tokens;
  std::optional<Error> why;  // with the numbers
  while (true) {
    int64_t fewer_tokens = options.kv_tokens / 2;
    try {
      auto parts = std::make_unique<Parts>(device, registry, model, tokenizer, options);
      const replay::StepMemory steps = parts->runner.step_memory();
      const size_t left = free - std::min(free, steps.total());
      fewer_tokens = std::min(fewer_tokens, static_cast<int64_t>(left / token_bytes));
      try {
        parts->runner.reserve();
      } catch (Error& error) {
        const engine::KvPool& pool = parts->pool;
        error.add_context(fmt::format(
            "{} bytes of the device are free; of them the KV cache of {} tokens takes {}, and steps {} ({} those that "
            "decode, {} those that read prompts, {} those that run eagerly, {} what is small)",
            free, pool.usable_tokens(), pool.bytes(), steps.total(), steps.decode, steps.prompts, steps.eager,
            steps.small));
        why = error;
        throw;
      }
      return parts;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      if (!any_kv_tokens || fewer_tokens < options.page_size) {
        Error told = why ? *why : error;
        if (options.kv_tokens < first_tokens) {
          told.add_context(
              fmt::format("KV caches of {} down to {} tokens were tried", first_tokens, options.kv_tokens));
        }
        throw Error(told);
      }
      log_info("KV cache of {} tokens instead of {}: steps need room as well", fewer_tokens, options.kv_tokens);
      log_debug("{}", error.what());
    }
    options.kv_tokens = fewer_tokens;
  }
}

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::~Engine() = default;

void Engine::settle() { parts_->loop.settle(); }

void Engine::capture(int32_t batch) {
  settle();
  if (parts_->options.capture_profile_directory.empty()) return capture_ahead(batch);
  replay::ProfileRecording recording(parts_->runner);
  capture_ahead(batch);
  log_info("{}", recording.save(parts_->options.capture_profile_directory));
}

void Engine::start_profile(std::filesystem::path directory, int64_t steps) {
  Parts& parts = *parts_;
  settle();
  if (parts.profile != nullptr && !parts.profile_text) {
    throw Error(ErrorCode::kFailedPrecondition, "a profile is running already").remedy("stop it first");
  }
  replay::ProfileRecording::make_directory(directory);
  parts.profile_directory = std::move(directory);
  parts.profile_text.reset();
  parts.profile.reset();  // the old one, before the device tells the new one
  parts.profile = std::make_unique<replay::ProfileRecording>(parts.runner, steps, [&parts] {
    parts.profile_text = parts.profile->save(parts.profile_directory);
    log_info("{}", *parts.profile_text);
  });
}

std::string Engine::stop_profile() {
  Parts& parts = *parts_;
  settle();
  if (parts.profile == nullptr) throw Error(ErrorCode::kFailedPrecondition, "no profile is running");
  const std::unique_ptr<replay::ProfileRecording> profile = std::move(parts.profile);
  std::optional<std::string> text = std::exchange(parts.profile_text, std::nullopt);
  return text ? *std::move(text) : profile->save(parts.profile_directory);
}

void Engine::capture_ahead(int32_t batch) {
  const std::vector<int32_t>& buckets = parts_->runner.buckets();
  parts_->runner.capture_prefill();
  if (batch == 0) return parts_->runner.capture();
  // Batches shrink as requests end: every bucket up to the one that holds the largest is needed.
  const auto end = std::find_if(buckets.begin(), buckets.end(), [batch](int32_t bucket) { return bucket >= batch; });
  const std::vector<int32_t> needed(buckets.begin(), end == buckets.end() ? end : end + 1);
  parts_->runner.capture(needed);
}

RequestId Engine::submit(Request request) { return parts_->loop.submit(std::move(request)); }
void Engine::check(const Request& request) const { parts_->loop.check(request); }
RequestId Engine::new_request_id() const { return parts_->loop.new_request_id(); }
void Engine::submit(RequestId id, Request request) { parts_->loop.submit(id, std::move(request)); }
bool Engine::cancel(RequestId id) { return parts_->loop.cancel(id); }
void Engine::cancel_all() { parts_->loop.cancel_all(); }
void Engine::fail_all(const Error& error) { parts_->loop.fail_all(error); }

bool Engine::step() {
  const bool worked = parts_->loop.step();
  if (!worked) parts_->last_step_end.reset();
  return parts_->capture_wanted(!worked) || worked;
}

void Engine::run_until_done() {
  while (step()) {
  }
}

replay::LogitsView Engine::run(const replay::StepBatch& batch) {
  settle();
  return parts_->run(batch);
}

int32_t Engine::running() const { return parts_->loop.running(); }
int32_t Engine::waiting() const { return parts_->loop.waiting(); }
int32_t Engine::open_requests() const { return parts_->loop.open_requests(); }

std::vector<float> Engine::prompt_logits(std::span<const int32_t> ids, const PromptLogitsOptions& options) {
  settle();
  PromptLogitsOptions filled = options;
  if (filled.chunk == 0) filled.chunk = parts_->options.max_prefill_tokens;
  if (filled.chunk > parts_->options.max_prefill_tokens) {
    throw Error(ErrorCode::kInvalidArgument, "a chunk of {} tokens exceeds max_prefill_tokens, which is {}",
                filled.chunk, parts_->options.max_prefill_tokens);
  }
  if (ids.size() > static_cast<size_t>(parts_->options.max_context)) {
    throw Error(ErrorCode::kInvalidArgument, "{} tokens exceed the context of {}", ids.size(),
                parts_->options.max_context);
  }
  const double captured = parts_->runner.capture_report().milliseconds / 1e3;
  const auto start = Clock::now();
  std::vector<float> logits =
      engine::prompt_logits(parts_->pool, parts_->step_function(), parts_->vocabulary, ids, filled);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count() -
                         (parts_->runner.capture_report().milliseconds / 1e3 - captured);
  const auto tokens = static_cast<int64_t>(ids.size());
  Statistics& counted = parts_->prompt_statistics;
  if (filled.decode) {
    counted.decode_tokens += tokens;
    counted.decode_steps += tokens;
    counted.decode_seconds += seconds;
    counted.decode_wall_seconds += seconds;
  } else {
    counted.prefill_tokens += tokens;
    counted.prefill_steps += (tokens + filled.chunk - 1) / filled.chunk;
    counted.prefill_seconds += seconds;
  }
  return logits;
}

Statistics Engine::statistics() const {
  Statistics result = parts_->loop.statistics();
  result.prefill_tokens += parts_->prompt_statistics.prefill_tokens;
  result.prefill_steps += parts_->prompt_statistics.prefill_steps;
  result.prefill_seconds += parts_->prompt_statistics.prefill_seconds;
  result.decode_tokens += parts_->prompt_statistics.decode_tokens;
  result.decode_steps += parts_->prompt_statistics.decode_steps;
  result.decode_seconds += parts_->prompt_statistics.decode_seconds;
  result.decode_wall_seconds += parts_->prompt_statistics.decode_wall_seconds;
  result.capture_seconds = parts_->runner.capture_report().milliseconds / 1e3;
  return result;
}

const EngineOptions& Engine::options() const { return parts_->options; }
const model::Model& Engine::model() const { return *parts_->model; }
const text::Tokenizer* Engine::tokenizer() const { return parts_->loop.tokenizer(); }
const StepLog& Engine::step_log() const { return parts_->step_log; }
void Engine::flush_prefix_cache() { parts_->pool.flush_cache(); }
KvPool& Engine::kv_pool() { return parts_->pool; }
replay::GraphRunner& Engine::runner() { return parts_->runner; }
const ExpertBalancer& Engine::expert_balancer() const { return parts_->balancer; }

}  // namespace reprise::engine
