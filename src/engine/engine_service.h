#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/rate_meter.h"
#include "engine/request.h"
#include "engine/statistics.h"
#include "engine/step_log.h"
#include "replay/step_counters.h"

namespace reprise::engine {

enum class ServiceState {
  kLoading,   ///< the engine is being made
  kReady,     ///< requests are taken
  kDraining,  ///< no new requests; those that were taken go on
  kStopped,   ///< all requests have ended, and there will be no others
  kFailed,    ///< the engine could not be made, or broke; see ServiceSnapshot::failure
};

/// "loading", "ready", "draining", "stopped", "failed".
std::string_view name_of(ServiceState state);

/// What the engine's thread tells after every turn, and in front of the last event of a request.
struct ServiceSnapshot {
  ServiceState state = ServiceState::kLoading;
  std::string failure;  ///< of kFailed; that an engine could not be made is its owner's to tell
  int32_t running = 0;
  int32_t waiting = 0;         ///< with those that the engine's thread has not seen yet
  int64_t kv_tokens_used = 0;  ///< held by requests, in whole pages
  int64_t kv_tokens_capacity = 0;
  int64_t kv_tokens_cached = 0;  ///< held by no request, but kept for later ones with the same beginning
  Statistics statistics;
  replay::StepCounters counters;
  replay::Mode mode = replay::Mode::kFull;
  double capture_seconds = 0;
  int64_t captures = 0;  ///< captured graphs, with the variants of one size
  int64_t recaptures = 0;
  size_t graph_bytes = 0;
  size_t arena_bytes = 0;
  double gap_milliseconds_median = 0;      ///< in front of replayed steps, of the last 512 steps
  double generated_tokens_per_second = 0;  ///< over the last seconds
  /// When the engine's thread was last seen between two turns; while idle it is seen a few times a second.
  std::chrono::steady_clock::time_point heartbeat;
};

/// What is known once the engine is made, and does not change any more.
struct ServiceInfo {
  model::ModelInfo model;
  EngineOptions options;  ///< with what was filled in
  std::vector<int32_t> graph_batch_sizes;
  int64_t kv_tokens_capacity = 0;
  size_t kv_bytes = 0;
};

struct ServiceOptions {
  /// Most requests that are taken beyond max_running; 0: no limit.
  int32_t max_queued = 0;
};

/// Owns the thread that owns an engine: requests are put into a mailbox, which that thread empties between two turns.
/// All members may be called from any thread, callbacks included, unless they say otherwise.
class EngineService {
 public:
  /// `make_engine` runs on the service's own thread, so that loading does not block the caller, and the engine is
  /// destroyed there. What it throws gives kFailed.
  explicit EngineService(std::function<std::unique_ptr<Engine>()> make_engine, ServiceOptions options = {});
  /// Cancels what still runs, with its last events, and waits for the thread. No member may be running.
  ~EngineService();
  EngineService(const EngineService&) = delete;
  EngineService& operator=(const EngineService&) = delete;

  /// Checks a request and queues it. Throws on the caller's thread: kFailedPrecondition unless the service is ready,
  /// kResourceExhausted when the queue is full, and what Engine::check() throws. on_token is called on the engine's
  /// thread and must be quick.
  RequestId submit(Request request);
  /// All of them or none.
  std::vector<RequestId> submit(std::vector<Request> requests);
  /// Ends a request; its last event still comes. Nothing happens when there is none of that id.
  void cancel(RequestId id);

  ServiceState state() const;
  ServiceSnapshot snapshot() const;
  /// Those of the last 512 steps that have a larger index, the oldest first.
  std::vector<StepRecord> step_records(int64_t after_index = -1) const;
  /// Null until the engine is made; valid as long as the service.
  const ServiceInfo* info() const;
  /// Null until the engine is made, and for one without a tokenizer; valid as long as the service.
  const text::Tokenizer* tokenizer() const;

  /// Runs `task` on the engine's thread between two turns; the future carries what it throws, or kFailedPrecondition
  /// when there is no engine to run it on.
  std::future<void> run(std::function<void(Engine&)> task);

  /// `callback` is called on the engine's thread whenever a turn is over, behind all events of the turn; it must be
  /// quick and takes the place of the one before, which may still be running when this returns. Empty: none.
  void on_turn_end(std::function<void()> callback);

  /// Refuses new requests, lets the others end within `limit`, and cancels the rest. Returns when all have ended, or at
  /// once while the engine is being made, which then takes no requests. Not from callbacks and tasks.
  void drain(std::chrono::milliseconds limit);

 private:
  struct Task {
    std::function<void(Engine&)> work;
    std::promise<void> done;
  };
  struct Mail {
    std::vector<std::pair<RequestId, Request>> requests;
    std::vector<RequestId> cancelled;
    std::vector<Task> tasks;
    bool cancel_all = false;
    bool wake = false;
    bool empty() const { return requests.empty() && cancelled.empty() && tasks.empty() && !cancel_all && !wake; }
    void clear();
  };

  void main();
  void load();
  bool turn();
  void work();
  void accept(RequestId id, Request request);
  void run_task(Task& task);
  void publish();
  void tell_turn_end() const;
  void end_drain();
  void fail(std::string what);
  void shut_down();
  void end_unseen(Mail& mail, FinishReason reason, const Error& error);
  void require_ready() const;  // with the mutex

  std::function<std::unique_ptr<Engine>()> make_engine_;
  const ServiceOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;     // for the engine's thread: mail, or the end
  std::condition_variable changed_;  // for drain(): the state
  // Guarded by the mutex:
  Mail mail_;
  bool stop_ = false;
  bool drain_ = false;
  ServiceState state_ = ServiceState::kLoading;
  ServiceSnapshot snapshot_;
  StepLog log_;
  std::unique_ptr<ServiceInfo> info_;
  std::shared_ptr<const std::function<void()>> turn_end_;
  const Engine* made_ = nullptr;  // for its members that any thread may call

  std::atomic<int32_t> open_ = 0;  // requests that were taken and have not ended

  // Of the engine's thread:
  std::unique_ptr<Engine> engine_;
  Mail taken_;
  bool busy_ = false;
  std::vector<StepRecord> new_records_;
  RateMeter rate_;

  std::thread thread_;  // last: it uses all others
};

}  // namespace reprise::engine
