#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device/capture.h"
#include "device/capture_joins.h"
#include "device/cpu/cpu_captured_graph.h"
#include "device/cpu/graph_program.h"

namespace reprise::device::cpu {

class QueuedStream;

/// A live capture: the program being built, the streams that take part, and what must hold at its end. Guarded by the
/// core's mutex.
class CaptureSession : public std::enable_shared_from_this<CaptureSession> {
 public:
  CaptureSession(std::shared_ptr<CpuCore> core, CaptureMode mode, QueuedStream& origin);
  CaptureSession(const CaptureSession&) = delete;
  CaptureSession& operator=(const CaptureSession&) = delete;

  CaptureMode mode() const { return mode_; }
  std::thread::id thread() const { return thread_; }
  CaptureStatus status() const { return invalidated_ ? CaptureStatus::kInvalidated : CaptureStatus::kActive; }
  void invalidate() { invalidated_ = true; }
  CpuCapturedGraph& graph() { return *graph_; }
  bool is_origin(uint16_t lane) const { return lane == 0; }
  /// The streams that take part, the origin first; null for one that was destroyed.
  const std::vector<QueuedStream*>& streams() const { return streams_; }
  /// Gives the events back to ordinary use: the capture is over.
  void release_events();
  void forget_stream(uint16_t lane) { streams_[lane] = nullptr; }

  // Recording. All throw kCaptureInvalidated after an invalidation; while a task group is open, everything except a
  // launch on the group's stream throws kTaskGroupOperation and is reported again by end_group().
  void add(uint16_t lane, const Instruction& instruction);
  void add_launch(uint16_t lane, const Instruction& instruction, std::span<const std::byte> arguments,
                  std::span<const std::byte> tail, std::span<const MemoryAccess> accesses);
  void add_external(Opcode opcode, uint16_t lane, std::shared_ptr<EventState> event);
  void record(uint16_t lane, const std::shared_ptr<EventState>& event);
  /// For an event whose last record is in this capture.
  void wait(uint16_t lane, const EventState& event);
  /// Makes a stream take part; returns its lane.
  uint16_t join(QueuedStream& stream, const EventState& event);
  void begin_group(uint16_t lane);
  TaskGroup* end_group(uint16_t lane);
  /// Throws kCaptureInvalidated.
  void check_valid() const;

  /// What end_capture() checks after the thread: throws, or yields the graph.
  std::unique_ptr<CpuCapturedGraph> finish();

 private:
  struct OpenGroup {
    uint16_t lane;
    uint32_t first;  ///< instruction
    std::optional<Error> error;
  };

  GraphProgram& program();
  void refuse_in_group(const char* operation);
  void check_joined() const;

  const CaptureMode mode_;
  const std::thread::id thread_;
  bool invalidated_ = false;
  std::unique_ptr<CpuCapturedGraph> graph_;
  std::vector<QueuedStream*> streams_;               ///< by lane; null for one that was destroyed
  CaptureJoins joins_;                               ///< its records are the program's edges
  std::vector<std::shared_ptr<EventState>> events_;  ///< recorded in this capture at least once
  std::optional<OpenGroup> group_;
};

}  // namespace reprise::device::cpu
