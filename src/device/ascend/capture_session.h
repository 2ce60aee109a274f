#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device/ascend/graph_state.h"
#include "device/capture.h"
#include "device/capture_joins.h"

namespace reprise::device::ascend {

class AclStream;

/// A live capture as the host sees it: who takes part, what was recorded, whether it is lost. The runtime judges forks
/// and joins; here is what it tells in other words than Reprise, or not at all. Guarded by the core's mutex.
class CaptureSession : public std::enable_shared_from_this<CaptureSession> {
 public:
  CaptureSession(std::shared_ptr<AscendCore> core, CaptureMode mode, AclStream& origin, aclmdlRI raw);
  CaptureSession(const CaptureSession&) = delete;
  CaptureSession& operator=(const CaptureSession&) = delete;

  CaptureMode mode() const { return mode_; }
  std::thread::id thread() const { return thread_; }
  CaptureStatus status() const { return invalidated_ ? CaptureStatus::kInvalidated : CaptureStatus::kActive; }
  void invalidate() { invalidated_ = true; }
  bool is_invalidated() const { return invalidated_; }
  AscendCapturedGraph& graph() { return *graph_; }
  GraphState& state() { return *state_; }
  std::unique_ptr<AscendCapturedGraph> take_graph() { return std::move(graph_); }
  bool is_origin(uint16_t lane) const { return lane == 0; }

  /// Those that take part, the origin first; null for one that was destroyed.
  const std::vector<AclStream*>& streams() const { return streams_; }
  void forget_stream(uint16_t lane) { streams_[lane] = nullptr; }
  /// A joined stream has gone: the runtime cannot let go of it before the capture ends.
  void inherit_stream(std::shared_ptr<StreamProgress> progress) { orphans_.push_back(std::move(progress)); }
  std::vector<std::shared_ptr<StreamProgress>> take_orphans() { return std::move(orphans_); }
  /// Gives the events back to ordinary use: the capture is over.
  void release_events();

  void hold(std::shared_ptr<const void> memory) { state_->held.push_back(std::move(memory)); }

  /// Throws kCaptureInvalidated.
  void check_valid() const;
  /// Before anything but a launch on the group's own stream: throws kTaskGroupOperation while a group is open, which
  /// end_group() will say again.
  void refuse_in_group(const char* operation);
  /// Before a launch.
  void check_launch(uint16_t lane);
  /// Notes the error of a launch inside a group for end_group().
  void note_group_error(const Error& error);

  /// Which stream was not joined, where the runtime says that one was not.
  std::optional<Error> find_unjoined() const;

  /// What the runtime has accepted.
  void add(GraphRecord::Entry entry);
  void record(uint16_t lane, const std::shared_ptr<EventState>& event);
  void wait(uint16_t lane, const EventState& event);
  void external(GraphRecord::Action action, uint16_t lane, const std::shared_ptr<EventState>& event);
  uint16_t join(AclStream& stream, const EventState& event);

  void check_begin_group() const;
  void begin_group(uint16_t lane);
  void check_end_group(uint16_t lane) const;
  /// Throws the group's first error; else yields the group.
  TaskGroup* end_group(uint16_t lane, aclrtTaskGrp handle);

 private:
  struct OpenGroup {
    uint16_t lane;
    std::vector<size_t> launches;
    std::optional<Error> error;
  };
  void keep_event(const std::shared_ptr<EventState>& event);

  const CaptureMode mode_;
  const std::thread::id thread_;
  bool invalidated_ = false;
  std::shared_ptr<GraphState> state_;
  std::unique_ptr<AscendCapturedGraph> graph_;
  std::vector<AclStream*> streams_;  ///< by lane; null for one that was destroyed
  CaptureJoins joins_;
  std::vector<std::shared_ptr<StreamProgress>> orphans_;
  std::vector<const EventState*> externals_;
  std::optional<OpenGroup> group_;
};

}  // namespace reprise::device::ascend
