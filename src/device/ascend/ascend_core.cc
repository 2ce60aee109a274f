#include "device/ascend/ascend_core.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "device/ascend/ascend_storage.h"
#include "device/ascend/capture_session.h"
#include "device/ascend/graph_state.h"
#include "device/device_lost.h"

namespace reprise::device::ascend {
namespace {

using Clock = std::chrono::steady_clock;

/// Released memory that waits for queued work: above the first, streams are asked to mark how far they are; above the
/// second, allocate() waits a little. The second bounds what eager code takes beyond its live tensors.
constexpr size_t kFenceBytes = size_t{4} << 20;
constexpr size_t kMaxWaitingBytes = size_t{256} << 20;
constexpr auto kDrainTime = std::chrono::seconds(2);

/// Identity of the core whose context is the calling thread's; 0: none.
thread_local uint64_t current_core = 0;

/// Sleeps a little longer each time, up to a millisecond.
class Backoff {
 public:
  void pause() {
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(pause_ * 2, std::chrono::microseconds(1000));
  }

 private:
  std::chrono::microseconds pause_{20};
};

/// Asks again and again; false when the time passed first.
template <typename Done>
bool poll_for(int timeout_ms, const Done& done) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  Backoff backoff;
  while (!done()) {
    if (Clock::now() > deadline) return false;
    backoff.pause();
  }
  return true;
}

}  // namespace

void AscendCore::enter() const {
  if (current_core == identity_) return;
  check(library->aclrtSetCurrentContext(context_), "aclrtSetCurrentContext", "entering the device's context");
  current_core = identity_;
}

void AscendCore::fail(int code, std::string_view call, std::string_view doing) const {
  try {
    throw_acl_error(*library, code, call, doing);
  } catch (const DeviceLost&) {
    lost_.store(true, std::memory_order_release);
    throw;
  }
}

void AscendCore::require(Feature feature, std::string_view doing) const {
  if (features.has(feature)) return;
  throw Error(ErrorCode::kUnsupported, "{}: this device has no {}: {}", doing, name_of(feature),
              features.why_not(feature))
      .remedy(feature == Feature::kTaskUpdate ? "update the driver and CANN, or use the mode piecewise"
                                              : "update the driver and CANN");
}

// ---- memory

MemoryPool::Block AscendCore::allocate_block(size_t bytes, MemoryKind kind) {
  std::vector<std::shared_ptr<const void>> expired;  // let go of without the mutex
  std::unique_lock lock(mutex);
  memory.reclaim(horizon());
  std::optional<MemoryPool::Block> block = memory.take(bytes, kind);
  if (!block && memory.has_waiting()) {
    poll_streams();
    if (memory.waiting_bytes() > kMaxWaitingBytes) drain(lock);
    block = memory.take(bytes, kind);
  }
  if (!block) {
    int code = bytes > SIZE_MAX / 2 ? ACL_ERROR_RT_MEMORY_ALLOCATION : memory.grow(bytes, kind);
    if (code != ACL_SUCCESS && bytes <= SIZE_MAX / 2) {
      // Everything that could be free, before giving up.
      discard_acl_message(*library);
      drain(lock);
      memory.drop_cached();
      block = memory.take(bytes, kind);
      if (!block) code = memory.grow(bytes, kind);
    }
    if (!block && code != ACL_SUCCESS) {
      lock.unlock();
      throw_out_of_memory(bytes, kind, code);
    }
    if (!block) block = memory.take(bytes, kind);
  }
  if (memory.waiting_bytes() > kFenceBytes) {
    for (const auto& progress : streams_) {
      if (progress->busy() && !progress->fence_pending) progress->fence_wanted.store(true, std::memory_order_release);
    }
  }
  REPRISE_CHECK(block.has_value());
  note_memory(MemoryRecord::Kind::kAllocate, block->data, bytes);
  expired = memory.take_expired_owners();
  return *block;
}

std::shared_ptr<Storage> AscendCore::allocate(size_t bytes, MemoryKind kind) {
  enter();
  const MemoryPool::Block block = allocate_block(bytes, kind);
  counters.allocations.fetch_add(1, std::memory_order_relaxed);
  return std::make_shared<PoolStorage>(shared_from_this(), block, bytes);
}

std::shared_ptr<Arena> AscendCore::reserve_arena(size_t bytes) {
  enter();
  // AscendCL's common interface has no reservations of address space: all of it is taken at once.
  const MemoryPool::Block block = allocate_block(std::max<size_t>(bytes, 1), MemoryKind::kDevice);
  return std::make_shared<AscendArena>(shared_from_this(), block, bytes);
}

void AscendCore::throw_out_of_memory(size_t bytes, MemoryKind kind, int code) {
  const char* call = kind == MemoryKind::kDevice ? "aclrtMalloc" : "aclrtMallocHost";
  size_t reserved = 0;
  {
    const std::lock_guard lock(mutex);
    reserved = memory.reserved_bytes(kind);
  }
  Error error = acl_error_as(ErrorCode::kOutOfMemory, *library, code, call, fmt::format("allocating {} bytes", bytes));
  if (kind == MemoryKind::kPinnedHost) throw Error(ErrorCode::kOutOfMemory, error.message());
  size_t free = 0;
  size_t total = 0;
  if (library->aclrtGetMemInfo(ACL_HBM_MEM, &free, &total) != ACL_SUCCESS || total == 0) throw Error(error);
  const size_t others = total - std::min(total, free + reserved);
  Error told(ErrorCode::kOutOfMemory, "{}; of the device's {} bytes {} are free, {} are this process's and {} others'",
             error.message(), total, free, reserved, others);
  if (others > total / 8) {
    throw std::move(told).remedy(
        "another process holds memory of the device: see npu-smi info; or lower --kv-tokens or --max-prefill-tokens, "
        "or "
        "take another device");
  }
  throw std::move(told).remedy(
      "lower --kv-tokens or --max-prefill-tokens (of bench: --batch-size or --input-len), or take another device");
}

void AscendCore::release(const MemoryPool::Block& block, size_t requested) {
  std::vector<std::shared_ptr<const void>> expired;
  const std::lock_guard lock(mutex);
  memory.forget(block);
  note_memory(MemoryRecord::Kind::kFree, block.data, requested);
  if (sessions_.empty()) {
    memory.retire(block, nullptr, sequence_.load(std::memory_order_acquire));
    memory.reclaim(horizon());
    expired = memory.take_expired_owners();
    return;
  }
  // Graphs in capture may use it, and each of their replays after that.
  const auto held = std::make_shared<HeldBlock>(shared_from_this(), block);
  for (CaptureSession* session : sessions_) session->hold(held);
}

void AscendCore::retire_locked(const MemoryPool::Block& block, std::shared_ptr<const void> owner) {
  memory.retire(block, std::move(owner), sequence_.load(std::memory_order_acquire));
}

void AscendCore::retire(std::shared_ptr<const void> owner) {
  std::vector<std::shared_ptr<const void>> expired;
  const std::lock_guard lock(mutex);
  retire_locked({}, std::move(owner));
  memory.reclaim(horizon());
  expired = memory.take_expired_owners();
}

MemoryInfo AscendCore::memory_info() {
  enter();
  size_t free = 0;
  size_t total = 0;
  check(library->aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), "aclrtGetMemInfo", "asking for the free memory");
  const std::lock_guard lock(mutex);
  return {total, free, memory.allocated_bytes()};
}

void AscendCore::note_memory(MemoryRecord::Kind kind, const void* address, size_t bytes) {
  Observer* told = observer.load(std::memory_order_acquire);
  if (told != nullptr) [[unlikely]]
    told->on_memory({kind, address, bytes, memory.allocated_bytes()});
}

namespace {

/// Whatever captures are live, the calling thread's synchronous calls touch nothing that they record.
class RelaxedCalls {
 public:
  explicit RelaxedCalls(const AscendCore& core) : core_(core) {
    if (core_.features.has(Feature::kGraph)) core_.library->aclmdlRICaptureThreadExchangeMode(&mode_);
  }
  ~RelaxedCalls() {
    if (core_.features.has(Feature::kGraph)) core_.library->aclmdlRICaptureThreadExchangeMode(&mode_);
  }
  RelaxedCalls(const RelaxedCalls&) = delete;
  RelaxedCalls& operator=(const RelaxedCalls&) = delete;

 private:
  const AscendCore& core_;
  aclmdlRICaptureMode mode_ = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
};

}  // namespace

void AscendCore::copy_now(void* destination, const void* source, size_t bytes, aclrtMemcpyKind kind) {
  const RelaxedCalls relaxed(*this);
  check(library->aclrtMemcpy(destination, bytes, source, bytes, kind), "aclrtMemcpy", "copying memory");
}

void AscendCore::zero_now(void* destination, size_t bytes) {
  const RelaxedCalls relaxed(*this);
  check(library->aclrtMemset(destination, bytes, 0, bytes), "aclrtMemset", "clearing memory");
}

// ---- streams

void AscendCore::register_stream(std::shared_ptr<StreamProgress> progress) {
  const std::lock_guard lock(mutex);
  streams_.push_back(std::move(progress));
}

void AscendCore::unregister_stream(const StreamProgress& progress) {
  aclrtEvent fence = nullptr;
  {
    const std::lock_guard lock(mutex);
    fence = progress.fence;
    std::erase_if(streams_, [&](const auto& known) { return known.get() == &progress; });
  }
  if (fence != nullptr) log_acl(*library, library->aclrtDestroyEvent(fence), "aclrtDestroyEvent", "ending a stream");
}

void AscendCore::end_stream(StreamProgress& progress, std::string_view name) noexcept {
  bool ended = false;
  try {
    enter();
    ended = wait_stream(progress, destroy_wait_ms(), "ending a stream");
    if (!ended) log_error("stream '{}' is destroyed before its work has ended, which is lost: {}", name, what_hangs());
  } catch (const std::exception& error) {
    log_error("stream '{}': {}", name, error.what());
  }
  if (!ended && features.has(Feature::kStreamAbort)) {
    library->aclrtStreamAbort(progress.raw);
    log_acl(*library, library->aclrtDestroyStreamForce(progress.raw), "aclrtDestroyStreamForce", "ending a stream");
  } else {
    log_acl(*library, library->aclrtDestroyStream(progress.raw), "aclrtDestroyStream", "ending a stream");
  }
  // What was queued has run or never will.
  progress.reach(progress.submitted.load());
  unregister_stream(progress);
}

uint64_t AscendCore::horizon() const {
  uint64_t done = UINT64_MAX;
  for (const auto& progress : streams_) {
    if (progress->busy()) done = std::min(done, progress->done.load(std::memory_order_acquire));
  }
  return done;
}

void AscendCore::poll_streams() {
  for (const auto& progress : streams_) {
    if (!progress->busy()) continue;
    if (progress->fence_pending) {
      aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
      if (library->aclrtQueryEventStatus(progress->fence, &status) == ACL_SUCCESS &&
          status == ACL_EVENT_RECORDED_STATUS_COMPLETE) {
        progress->fence_pending = false;
        progress->reach(progress->fence_sequence);
      }
    }
    if (progress->capturing.load(std::memory_order_acquire)) continue;
    const uint64_t last = progress->submitted.load(std::memory_order_acquire);
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    if (library->aclrtStreamQuery(progress->raw, &status) == ACL_SUCCESS && status == ACL_STREAM_STATUS_COMPLETE)
      progress->reach(last);
  }
  memory.reclaim(horizon());
}

void AscendCore::drain(std::unique_lock<std::mutex>& lock) {
  const auto deadline = Clock::now() + kDrainTime;
  Backoff backoff;
  while (true) {
    poll_streams();
    // A stream that captures does not get on before the capture ends.
    const bool waits = std::any_of(streams_.begin(), streams_.end(), [](const auto& progress) {
      return progress->busy() && !progress->capturing.load(std::memory_order_acquire);
    });
    if (!memory.has_waiting() || !waits || Clock::now() > deadline) return;
    lock.unlock();
    backoff.pause();
    lock.lock();
  }
}

aclrtEvent AscendCore::make_event() const {
  aclrtEvent event = nullptr;
  check(library->aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE), "aclrtCreateEventExWithFlag",
        "making an event");
  return event;
}

void AscendCore::place_fence(StreamProgress& progress) {
  if (!progress.fence_wanted.exchange(false, std::memory_order_acq_rel)) return;
  {
    const std::lock_guard lock(mutex);
    if (progress.fence_pending) return;
    if (progress.fence == nullptr &&
        library->aclrtCreateEventExWithFlag(&progress.fence, ACL_EVENT_SYNC) != ACL_SUCCESS) {
      progress.fence = nullptr;
      return;
    }
  }
  const uint64_t sequence = next_sequence();
  progress.submitted.store(sequence, std::memory_order_release);
  if (library->aclrtRecordEvent(progress.fence, progress.raw) != ACL_SUCCESS) return;
  const std::lock_guard lock(mutex);
  progress.fence_sequence = sequence;
  progress.fence_pending = true;
}

bool AscendCore::wait_stream(StreamProgress& progress, int timeout_ms, std::string_view doing) {
  const uint64_t last = progress.submitted.load(std::memory_order_acquire);
  if (features.has(Feature::kTimedWait)) {
    const int code = library->aclrtSynchronizeStreamWithTimeout(progress.raw, std::max(timeout_ms, 1));
    if (code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) return false;
    check(code, "aclrtSynchronizeStreamWithTimeout", doing);
    progress.reach(last);
    return true;
  }
  return poll_for(timeout_ms, [&] { return query_stream(progress, doing); });
}

bool AscendCore::query_stream(StreamProgress& progress, std::string_view doing) {
  const uint64_t last = progress.submitted.load(std::memory_order_acquire);
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  check(library->aclrtStreamQuery(progress.raw, &status), "aclrtStreamQuery", doing);
  if (status != ACL_STREAM_STATUS_COMPLETE) return false;
  progress.reach(last);
  return true;
}

std::exception_ptr AscendCore::take_error(StreamProgress& progress) {
  std::vector<std::shared_ptr<ErrorSlot>> slots{progress.errors};
  {
    const std::lock_guard lock(mutex);
    slots.insert(slots.end(), progress.graph_errors.begin(), progress.graph_errors.end());
    progress.graph_errors.clear();
  }
  for (const auto& slot : slots) {
    if (std::exception_ptr error = slot->take()) return error;
  }
  return nullptr;
}

void AscendCore::synchronize_streams() {
  constexpr std::string_view kDoing = "waiting for the device";
  if (features.has(Feature::kTimedWait)) {
    const int code = library->aclrtSynchronizeDeviceWithTimeout(wait_limit_ms);
    if (code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) give_up(kDoing);
    check(code, "aclrtSynchronizeDeviceWithTimeout", kDoing);
  }
  std::vector<std::shared_ptr<StreamProgress>> streams;
  const bool ended = poll_for(wait_limit_ms, [&] {
    const std::lock_guard lock(mutex);
    poll_streams();
    streams = streams_;
    return features.has(Feature::kTimedWait) ||
           std::none_of(streams.begin(), streams.end(), [](const auto& progress) { return progress->busy(); });
  });
  if (!ended) give_up(kDoing);
  for (const auto& progress : streams) {
    if (std::exception_ptr error = take_error(*progress)) std::rethrow_exception(error);
  }
}

bool AscendCore::query_event(aclrtEvent event, std::string_view doing) const {
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  check(library->aclrtQueryEventStatus(event, &status), "aclrtQueryEventStatus", doing);
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

bool AscendCore::wait_event(aclrtEvent event, int timeout_ms, std::string_view doing) const {
  if (features.has(Feature::kTimedWait)) {
    const int code = library->aclrtSynchronizeEventWithTimeout(event, std::max(timeout_ms, 1));
    if (code == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT) return false;
    check(code, "aclrtSynchronizeEventWithTimeout", doing);
    return true;
  }
  return poll_for(timeout_ms, [&] { return query_event(event, doing); });
}

void AscendCore::give_up(std::string_view doing) const {
  lost_.store(true, std::memory_order_release);
  throw DeviceLost(Error(ErrorCode::kInternal, "{}: the device has not come to an end within {:.1f} s", doing,
                         static_cast<double>(wait_limit_ms) * 1e-3)
                       .remedy(fmt::format("{}; the device's log is in ~/ascend/log", what_hangs())));
}

std::string AscendCore::what_hangs() const {
  const int64_t open = counters.external_waits - counters.external_records;
  if (open <= 0) return "a kernel or a host function hangs: no external event is waited for";
  return fmt::format("{} external event{} waited for and not recorded, or a kernel hangs in front of {}", open,
                     open == 1 ? " is" : "s are", open == 1 ? "that wait" : "these waits");
}

int AscendCore::destroy_wait_ms() const {
  return lost_.load(std::memory_order_acquire) ? 0 : std::min(kDestroyTimeoutMs, wait_limit_ms);
}

// ---- graphs that outlive their handles

void AscendCore::bury(std::shared_ptr<GraphState> graph) {
  const std::lock_guard lock(mutex);
  graves_.push_back(std::move(graph));
}

void AscendCore::dig_graves(bool all) {
  std::vector<std::shared_ptr<GraphState>> ended;
  {
    const std::lock_guard lock(mutex);
    for (auto& graph : graves_) {
      if (all || graph->has_ended()) ended.push_back(std::move(graph));
    }
    std::erase(graves_, nullptr);
  }
  for (const auto& graph : ended) graph->destroy();
}

}  // namespace reprise::device::ascend
