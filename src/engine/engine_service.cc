#include "engine/engine_service.h"

#include "base/error.h"
#include "base/log.h"

namespace reprise::engine {
namespace {

using Clock = std::chrono::steady_clock;

// How often an idle engine's thread shows that it is alive.
constexpr std::chrono::milliseconds kHeartbeat{100};

// The only event of a request that the engine has never seen.
void end_request(RequestId id, const Request& request, FinishReason reason, const Error& error) {
  RequestOutput output;
  output.finish = reason;
  output.prompt_tokens = static_cast<int32_t>(request.prompt.size());
  if (reason == FinishReason::kError) output.error = error;
  TokenEvent event;
  event.request = id;
  event.output = &output;
  try {
    if (request.on_token) request.on_token(event);
  } catch (const std::exception& exception) {
    log_warning("the callback of request {} failed: {}", id, exception.what());
  }
}

}  // namespace

std::string_view name_of(ServiceState state) {
  switch (state) {
    case ServiceState::kLoading:
      return "loading";
    case ServiceState::kReady:
      return "ready";
    case ServiceState::kDraining:
      return "draining";
    case ServiceState::kStopped:
      return "stopped";
    case ServiceState::kFailed:
      return "failed";
  }
  throw Error(ErrorCode::kInternal, "unknown state {} of a service", static_cast<int>(state));
}

void EngineService::Mail::clear() {
  requests.clear();
  cancelled.clear();
  tasks.clear();
  cancel_all = false;
  wake = false;
}

EngineService::EngineService(std::function<std::unique_ptr<Engine>()> make_engine, ServiceOptions options)
    : make_engine_(std::move(make_engine)), options_(options) {
  if (options_.max_queued < 0) {
    throw Error(ErrorCode::kInvalidArgument, "max_queued is {}, but must be at least 0", options_.max_queued);
  }
  snapshot_.heartbeat = Clock::now();
  thread_ = std::thread([this] { main(); });
}

EngineService::~EngineService() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

RequestId EngineService::submit(Request request) {
  std::vector<Request> one;
  one.push_back(std::move(request));
  return submit(std::move(one)).front();
}

std::vector<RequestId> EngineService::submit(std::vector<Request> requests) {
  const Engine* engine = nullptr;
  {
    const std::lock_guard lock(mutex_);
    require_ready();
    engine = made_;
  }
  // Without the mutex: a long prompt must not hold up the engine's thread.
  std::vector<RequestId> ids;
  for (Request& request : requests) {
    engine->check(request);
    ids.push_back(engine->new_request_id());
    request.on_token = [this, told = std::move(request.on_token)](const TokenEvent& event) {
      if (event.output != nullptr) {
        --open_;
        publish();  // who has the answer asks for numbers that hold it
      }
      if (told) told(event);
    };
  }
  {
    const std::lock_guard lock(mutex_);
    require_ready();
    const int64_t places = int64_t{engine->options().max_running} + options_.max_queued;
    const auto count = static_cast<int32_t>(requests.size());
    if (options_.max_queued > 0 && count > places) {
      throw Error(ErrorCode::kInvalidArgument, "{} outputs are asked for at once, but only {} can run and wait", count,
                  places);
    }
    if (options_.max_queued > 0 && count > places - open_) {
      throw Error(ErrorCode::kResourceExhausted, "The request queue is full.").remedy("try again later");
    }
    open_ += count;
    for (size_t i = 0; i < requests.size(); ++i) mail_.requests.emplace_back(ids[i], std::move(requests[i]));
  }
  wake_.notify_one();
  return ids;
}

void EngineService::require_ready() const {
  if (state_ == ServiceState::kReady) return;
  throw Error(ErrorCode::kFailedPrecondition, "requests are not taken: the engine is {}{}{}", name_of(state_),
              snapshot_.failure.empty() ? "" : ": ", snapshot_.failure);
}

void EngineService::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    mail_.cancelled.push_back(id);
  }
  wake_.notify_one();
}

ServiceState EngineService::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

ServiceSnapshot EngineService::snapshot() const {
  const std::lock_guard lock(mutex_);
  ServiceSnapshot result = snapshot_;
  result.state = state_;
  result.waiting += static_cast<int32_t>(mail_.requests.size());
  result.gap_milliseconds_median = log_.median_gap();
  return result;
}

std::vector<StepRecord> EngineService::step_records(int64_t after_index) const {
  std::vector<StepRecord> result;
  const std::lock_guard lock(mutex_);
  log_.copy_after(after_index, result);
  return result;
}

const ServiceInfo* EngineService::info() const {
  const std::lock_guard lock(mutex_);
  return info_.get();
}

const text::Tokenizer* EngineService::tokenizer() const {
  const std::lock_guard lock(mutex_);
  return made_ == nullptr ? nullptr : made_->tokenizer();
}

std::future<void> EngineService::run(std::function<void(Engine&)> task) {
  Task entry{std::move(task), {}};
  std::future<void> result = entry.done.get_future();
  {
    const std::lock_guard lock(mutex_);
    mail_.tasks.push_back(std::move(entry));
  }
  wake_.notify_one();
  return result;
}

void EngineService::on_turn_end(std::function<void()> callback) {
  auto shared = callback ? std::make_shared<const std::function<void()>>(std::move(callback)) : nullptr;
  const std::lock_guard lock(mutex_);
  std::swap(turn_end_, shared);
}

void EngineService::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  drain_ = true;
  if (state_ == ServiceState::kLoading) return;
  if (state_ == ServiceState::kReady) state_ = ServiceState::kDraining;
  mail_.wake = true;
  wake_.notify_one();
  const auto done = [this] { return state_ != ServiceState::kDraining; };
  if (changed_.wait_for(lock, limit, done)) return;
  log_info("requests that have not ended after {} ms are cancelled", limit.count());
  mail_.cancel_all = true;
  wake_.notify_one();
  changed_.wait(lock, done);
}

void EngineService::main() {
  load();
  while (turn()) {
  }
  shut_down();
}

void EngineService::load() {
  std::unique_ptr<ServiceInfo> info;
  std::string failure;
  try {
    engine_ = make_engine_();
    REPRISE_CHECK(engine_ != nullptr);
    const KvPool& pool = engine_->kv_pool();
    info = std::make_unique<ServiceInfo>(ServiceInfo{engine_->model().info(), engine_->options(),
                                                     engine_->runner().buckets(), pool.usable_tokens(), pool.bytes()});
  } catch (const std::exception& error) {
    failure = error.what();  // its owner tells
    engine_.reset();
  }
  {
    const std::lock_guard lock(mutex_);
    snapshot_.heartbeat = Clock::now();
    made_ = engine_.get();
    info_ = std::move(info);
    snapshot_.failure = failure;
    state_ = !failure.empty() ? ServiceState::kFailed : drain_ ? ServiceState::kDraining : ServiceState::kReady;
    mail_.wake = true;  // for a first turn, which tells the engine's numbers
  }
  changed_.notify_all();
}

/// False at the end.
bool EngineService::turn() {
  {
    std::unique_lock lock(mutex_);
    if (!busy_) wake_.wait_for(lock, kHeartbeat, [this] { return stop_ || !mail_.empty(); });
    if (stop_) return false;
    taken_.clear();
    std::swap(taken_, mail_);
  }
  try {
    work();
  } catch (const std::exception& error) {
    fail(error.what());
  }
  publish();
  tell_turn_end();
  end_drain();
  return true;
}

void EngineService::tell_turn_end() const {
  std::shared_ptr<const std::function<void()>> callback;
  {
    const std::lock_guard lock(mutex_);
    callback = turn_end_;
  }
  if (callback != nullptr) (*callback)();
}

void EngineService::work() {
  busy_ = false;
  if (state() == ServiceState::kFailed) {
    for (Task& task : taken_.tasks) {
      task.done.set_exception(
          std::make_exception_ptr(Error(ErrorCode::kFailedPrecondition, "there is no engine: it has failed")));
    }
    return;
  }
  for (auto& [id, request] : taken_.requests) accept(id, std::move(request));
  taken_.requests.clear();
  for (const RequestId id : taken_.cancelled) engine_->cancel(id);
  if (taken_.cancel_all) engine_->cancel_all();
  if (!taken_.tasks.empty()) engine_->settle();
  for (Task& task : taken_.tasks) run_task(task);
  busy_ = engine_->step();
}

void EngineService::accept(RequestId id, Request request) {
  const TokenCallback told = request.on_token;
  try {
    engine_->submit(id, std::move(request));
  } catch (const Error& error) {
    Request refused;
    refused.on_token = told;
    end_request(id, refused, FinishReason::kError, error);
  } catch (const std::bad_alloc&) {
    Request refused;
    refused.on_token = told;
    end_request(id, refused, FinishReason::kError, Error(ErrorCode::kOutOfMemory, "memory ran out"));
  }
}

void EngineService::run_task(Task& task) {
  try {
    task.work(*engine_);
    task.done.set_value();
  } catch (...) {
    task.done.set_exception(std::current_exception());
  }
}

void EngineService::publish() {
  const auto now = Clock::now();
  new_records_.clear();
  if (engine_ != nullptr) {
    engine_->step_log().copy_after(log_.last_index(), new_records_);  // this thread alone writes log_
    rate_.update(now, engine_->statistics().generated_tokens);
  }
  const std::lock_guard lock(mutex_);
  snapshot_.heartbeat = now;
  if (engine_ == nullptr) return;
  for (const StepRecord& record : new_records_) log_.add(record);
  const KvPool& pool = engine_->kv_pool();
  snapshot_.running = engine_->running();
  snapshot_.waiting = engine_->waiting();
  snapshot_.kv_tokens_capacity = pool.usable_tokens();
  snapshot_.kv_tokens_used = pool.used_tokens();
  snapshot_.kv_tokens_cached = int64_t{pool.cached_pages()} * pool.page_size();
  snapshot_.statistics = engine_->statistics();
  snapshot_.counters = engine_->runner().counters();
  snapshot_.mode = engine_->options().mode;
  const replay::CaptureReport& report = engine_->runner().capture_report();
  snapshot_.capture_seconds = report.milliseconds / 1e3;
  snapshot_.captures = report.variants;
  for (const auto& bucket : report.buckets) snapshot_.captures += bucket.failure.empty() ? 1 : 0;
  snapshot_.recaptures = report.recaptures;
  snapshot_.graph_bytes = report.graph_bytes;
  snapshot_.arena_bytes = report.arena_bytes;
  snapshot_.generated_tokens_per_second = rate_.per_second();
}

/// Behind the last turn's events: who drains may then drop what delivers them.
void EngineService::end_drain() {
  const std::lock_guard lock(mutex_);
  if (engine_ == nullptr || state_ != ServiceState::kDraining || open_ != 0) return;
  state_ = ServiceState::kStopped;
  changed_.notify_all();
}

/// The engine broke: everybody is told, and nobody gets in any more.
void EngineService::fail(std::string what) {
  log_error("the engine failed: {}", what);
  busy_ = false;
  Mail unseen;
  {
    const std::lock_guard lock(mutex_);
    state_ = ServiceState::kFailed;
    snapshot_.failure = what;
    std::swap(unseen, mail_);
  }
  const Error error(ErrorCode::kInternal, fmt::format("the engine failed: {}", what));
  engine_->fail_all(error);
  end_unseen(taken_, FinishReason::kError, error);
  end_unseen(unseen, FinishReason::kError, error);
  changed_.notify_all();
}

void EngineService::end_unseen(Mail& mail, FinishReason reason, const Error& error) {
  for (const auto& [id, request] : mail.requests) {
    if (request.on_token) end_request(id, request, reason, error);
  }
  for (Task& task : mail.tasks) {
    try {
      task.done.set_exception(std::make_exception_ptr(error));
    } catch (const std::future_error&) {  // it was done before
    }
  }
  mail.clear();
}

void EngineService::shut_down() {
  bool failed = false;
  Mail unseen;
  {
    const std::lock_guard lock(mutex_);
    failed = state_ == ServiceState::kFailed;
    if (!failed) state_ = ServiceState::kStopped;  // callbacks may try to submit more
    std::swap(unseen, mail_);
  }
  const Error error(ErrorCode::kFailedPrecondition, "the engine is being stopped");
  if (!failed) {
    try {
      engine_->cancel_all();
      engine_->step();
    } catch (const std::exception& failure) {
      log_warning("ending the requests of the engine: {}", failure.what());
    }
  }
  end_unseen(unseen, FinishReason::kCancelled, error);
  tell_turn_end();
  engine_.reset();
}

}  // namespace reprise::engine
