#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/ascend/acl_error.h"
#include "device/ascend/ascend_device.h"
#include "device/ascend/memory_pool.h"
#include "device/ascend/resource_budget.h"
#include "device/ascend/stream_progress.h"
#include "device/observer.h"

namespace reprise::device::ascend {

class CaptureSession;
struct GraphState;

/// How long a destructor waits for work before it gives up.
inline constexpr int kDestroyTimeoutMs = 10000;

/// What the handles of one device share: they keep it alive, so that the order of their destruction does not matter.
///
/// One mutex guards what the host knows. It is held for moments: never while a call waits for the device, and never
/// around a submission, which waits when a queue is full.
class AscendCore : public std::enable_shared_from_this<AscendCore> {
 public:
  explicit AscendCore(const AscendOptions& options);
  ~AscendCore();
  AscendCore(const AscendCore&) = delete;
  AscendCore& operator=(const AscendCore&) = delete;

  const std::shared_ptr<const AclLibrary> library;
  const int device_id;
  const int wait_limit_ms;
  FeatureSet features;  ///< the library's, less what the device refuses; constant once the core is made
  int cube_cores = 0;
  int vector_cores = 0;
  bool graphs_hold_streams = true;  ///< whether captured graphs take streams of the device until they are destroyed
  std::mutex mutex;
  MemoryPool memory;  ///< guarded by the mutex

  struct Counters {
    std::atomic<int64_t> launches{0}, replays{0}, captures{0}, task_updates{0}, allocations{0};
    /// Waits for external events that were queued, in graphs at each replay, and what ends one each.
    std::atomic<int64_t> external_waits{0}, external_records{0};
  } counters;
  std::atomic<Observer*> observer{nullptr};

  /// Makes the device's context the calling thread's, before any other call.
  void enter() const;
  /// Throws the error for a code other than success.
  void check(int code, std::string_view call, std::string_view doing) const {
    if (code != ACL_SUCCESS) [[unlikely]]
      fail(code, call, doing);
  }
  /// kUnsupported with the reason when a feature is off.
  void require(Feature feature, std::string_view doing) const;

  std::shared_ptr<Storage> allocate(size_t bytes, MemoryKind kind);
  std::shared_ptr<Arena> reserve_arena(size_t bytes);
  /// Gives back a block that nobody refers to; graphs in capture and queued work may still use it.
  void release(const MemoryPool::Block& block, size_t requested);
  /// Lets go of something once the work queued so far has run.
  void retire(std::shared_ptr<const void> owner);
  /// The same for a block or an owner, with the mutex locked, and without letting go of anything now.
  void retire_locked(const MemoryPool::Block& block, std::shared_ptr<const void> owner);
  MemoryInfo memory_info();
  /// Streams and events that are free for captures.
  CaptureRoom capture_room() const;
  /// Synchronous copy or fill that no capture forbids.
  void copy_now(void* destination, const void* source, size_t bytes, aclrtMemcpyKind kind);
  void zero_now(void* destination, size_t bytes);

  // Streams. register_stream() and the others lock the mutex themselves.
  void register_stream(std::shared_ptr<StreamProgress> progress);
  void unregister_stream(const StreamProgress& progress);
  /// Waits for a stream's work as a destructor does, with a limit, then ends it; whatever goes wrong is logged.
  void end_stream(StreamProgress& progress, std::string_view name) noexcept;
  uint64_t next_sequence() { return sequence_.fetch_add(1, std::memory_order_acq_rel) + 1; }
  /// To be called by a stream in front of a submission that no capture takes: records a fence if one is wanted.
  void place_fence(StreamProgress& progress);
  /// Waits until a stream is empty; false when the time passed first. Throws when its work failed.
  bool wait_stream(StreamProgress& progress, int timeout_ms, std::string_view doing);
  /// Looks whether a stream is empty.
  bool query_stream(StreamProgress& progress, std::string_view doing);
  /// Waits for all streams, with the limit, and rethrows the error of a host function of one.
  void synchronize_streams();
  /// The error of a host function of this stream or of a graph that was replayed on it; null when there is none.
  std::exception_ptr take_error(StreamProgress& progress);
  /// Waits until an event is reached; false when the time passed first.
  bool wait_event(aclrtEvent event, int timeout_ms, std::string_view doing) const;
  bool query_event(aclrtEvent event, std::string_view doing) const;
  /// The error for a wait that took longer than the limit. From then on nobody waits any more.
  [[noreturn]] void give_up(std::string_view doing) const;
  /// What may hold up a stream that does not come to its end.
  std::string what_hangs() const;
  /// How long a destructor waits for work: no time when a wait has been given up before.
  int destroy_wait_ms() const;
  bool is_lost() const { return lost_.load(std::memory_order_acquire); }
  aclrtEvent make_event() const;

  // Captures; with the mutex locked.
  void begin_session(CaptureSession& session) { sessions_.push_back(&session); }
  void end_session(CaptureSession& session) { std::erase(sessions_, &session); }
  bool any_capture() const { return !sessions_.empty(); }

  /// Takes over a graph that still runs, until it can be destroyed. Locks the mutex.
  void bury(std::shared_ptr<GraphState> graph);
  /// Destroys buried graphs: those that have ended, or all.
  void dig_graves(bool all);

 private:
  [[noreturn]] void fail(int code, std::string_view call, std::string_view doing) const;
  void open_device();
  void close_device() noexcept;
  void read_cores();
  void look_at_free_memory() const;
  void probe_features();
  void probe_graphs(aclrtStream stream);
  /// With the mutex locked: asks the busy streams how far they are, and reclaims what their work no longer needs.
  void poll_streams();
  uint64_t horizon() const;
  /// Waits some time for memory that queued work holds. Returns when all of it is free.
  void drain(std::unique_lock<std::mutex>& lock);
  MemoryPool::Block allocate_block(size_t bytes, MemoryKind kind);
  [[noreturn]] void throw_out_of_memory(size_t bytes, MemoryKind kind, int code);
  void note_memory(MemoryRecord::Kind kind, const void* address, size_t bytes);

  aclrtContext context_ = nullptr;
  uint64_t identity_ = 0;                  ///< of this core among all that there ever were
  mutable std::atomic<bool> lost_{false};  ///< a wait has been given up, or the device has told that it is lost
  std::atomic<uint64_t> sequence_{0};
  std::vector<std::shared_ptr<StreamProgress>> streams_;
  std::vector<CaptureSession*> sessions_;
  std::vector<std::shared_ptr<GraphState>> graves_;
};

}  // namespace reprise::device::ascend
