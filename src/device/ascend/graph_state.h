#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/ascend/ascend_core.h"
#include "device/ascend/error_slot.h"
#include "device/ascend/event_state.h"
#include "device/ascend/graph_record.h"
#include "device/captured_graph.h"

namespace reprise::device::ascend {

/// A host function in a stream's order. What it throws goes into a slot.
struct HostCall {
  void (*function)(void* data) = nullptr;
  void* data = nullptr;
  std::shared_ptr<ErrorSlot> errors;
  /// The runtime's callback: runs the HostCall at `call`, which stays.
  static void run(void* call);
  /// The same, and deletes it.
  static void run_once(void* call);
};

struct GraphState;

/// The launches between a begin and an end of a captured graph.
class AscendTaskGroup : public TaskGroup {
 public:
  AscendTaskGroup(GraphState& graph, aclrtTaskGrp handle, std::vector<size_t> entries)
      : graph_(graph), handle_(handle), entries_(std::move(entries)) {}
  int64_t launches() const override { return static_cast<int64_t>(entries_.size()); }

  GraphState& graph() { return graph_; }
  aclrtTaskGrp handle() const { return handle_; }
  /// Indices of its launches in the graph's record.
  const std::vector<size_t>& entries() const { return entries_; }

  /// Between begin and end of an update by some stream. Guarded by the core's mutex.
  bool updating = false;

 private:
  GraphState& graph_;
  aclrtTaskGrp handle_;
  std::vector<size_t> entries_;
};

/// A captured graph apart from its handle, with all that must live as long as it. Guarded by the core's mutex, except
/// where a member says otherwise.
struct GraphState : std::enable_shared_from_this<GraphState> {
  explicit GraphState(std::shared_ptr<AscendCore> its_core) : core(std::move(its_core)) {}
  ~GraphState() { destroy(); }

  const std::shared_ptr<AscendCore> core;
  aclmdlRI raw = nullptr;  ///< null: nothing was captured, or it is destroyed
  bool capturing = true;
  /// A task update broke off in the middle: some launches are the old ones, some the new ones.
  bool damaged = false;
  GraphRecord record;
  std::vector<std::unique_ptr<AscendTaskGroup>> groups;
  std::vector<std::shared_ptr<const void>> held;      ///< memory that was released during the capture
  std::vector<std::shared_ptr<EventState>> events;    ///< which nodes of the graph refer to
  int64_t external_waits = 0, external_records = 0;   ///< of one replay
  std::vector<std::unique_ptr<HostCall>> host_calls;  ///< which the runtime calls at each replay
  std::shared_ptr<ErrorSlot> errors = std::make_shared<ErrorSlot>();

  /// Replays of a graph follow one another, whatever their streams are: a mark behind each of them.
  std::unique_ptr<RawEvent> replayed;
  const StreamProgress* last_stream = nullptr;
  bool marked = true;  ///< false: the runtime did not take the mark behind the last replay
  /// Of each stream that made one, the last task update or replay without a mark.
  std::vector<std::pair<std::shared_ptr<StreamProgress>, uint64_t>> unmarked;
  /// Notes that the last submission of a stream uses the graph.
  void note_unmarked(const std::shared_ptr<StreamProgress>& stream);

  /// Whether no replay and no update of it is queued any more. Asks the device.
  bool has_ended() const;
  /// Destroys the runtime's graph and lets go of everything. Nothing of it may be queued.
  void destroy() noexcept;
};

/// The handle of a captured graph.
class AscendCapturedGraph : public CapturedGraph {
 public:
  explicit AscendCapturedGraph(std::shared_ptr<GraphState> state) : state_(std::move(state)) {}
  ~AscendCapturedGraph() override;

  void replay(Stream& stream) override;
  GraphStatistics statistics() const override;
  std::string to_text() const override;
  std::string to_json() const override;
  uint64_t hash(bool with_addresses) const override;
  void add_destroy_callback(void (*callback)(void* data), void* data) override;
  void close(int timeout_ms) override;

 private:
  struct Callback {
    void (*function)(void* data);
    void* data;
  };
  /// kFailedPrecondition after close(). With the mutex locked.
  GraphState& open_state() const;
  std::string runtime_dump() const;
  void run_callbacks();

  const std::shared_ptr<GraphState> state_;
  bool closed_ = false;
  std::vector<Callback> callbacks_;
};

}  // namespace reprise::device::ascend
