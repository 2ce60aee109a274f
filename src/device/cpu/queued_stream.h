#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/cpu/capture_session.h"
#include "device/cpu/cpu_core.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/event_state.h"
#include "device/cpu/stream_queue.h"
#include "device/cpu/task_group.h"

namespace reprise::device::cpu {

/// The CPU's stream. A call goes one of three ways: into the capture in which the stream takes part, into the task
/// update that is open on it, or into its queue.
class QueuedStream : public CpuStream {
 public:
  QueuedStream(std::shared_ptr<CpuCore> core, Device& device, StreamOptions options, bool is_default);
  ~QueuedStream() override;

  Device& device() override { return device_; }
  const StreamOptions& options() const override { return options_; }

  using CpuStream::launch;
  void launch(const Kernel& kernel, int64_t tiles, std::span<const std::byte> arguments,
              std::span<const std::byte> tail) override;

  void declare_accesses(std::span<const MemoryAccess> accesses) override;

  void annotate(uint16_t label) override;

  void synchronize() override;
  bool synchronize_for(int timeout_ms) override;
  bool query() override;

  void copy_async(void* destination, const void* source, size_t bytes, CopyKind kind) override;
  void fill_async(void* destination, unsigned char value, size_t bytes) override;
  void host_function(void (*function)(void* data), void* data) override;

  void record(Event& event) override;
  void wait(Event& event) override;

  void begin_capture(CaptureMode mode) override;
  std::unique_ptr<CapturedGraph> end_capture() override;
  CaptureInfo capture_info() override;

  void begin_task_group() override;
  TaskGroup* end_task_group() override;
  void begin_task_update(TaskGroup& group) override;
  void end_task_update() override;

  void set_core_limit(CoreLimit limit) override;
  CoreLimit core_limit() const override;

  void close() override;

  // For the other classes of the device; with the core's mutex locked.
  void queue_replay(const CpuCore& core, const std::shared_ptr<GraphProgram>& program);

 private:
  /// Launches that wait for end_task_update() to be queued together.
  struct Update {
    CpuTaskGroup* group;
    std::shared_ptr<GraphProgram> program;  ///< keeps the group alive
    std::optional<Error> error;             ///< the first; the update will not take place
  };
  using Lock = Executor::Lock;

  /// Throws when the stream is closed or captures.
  void check_plain(const char* call) const;
  void check_open(std::string_view call) const;
  /// Notes the error for end_task_update() and throws it.
  [[noreturn]] void fail_update(ErrorCode code, std::string message);
  /// An instruction other than a launch: captured, refused in an update, or queued.
  void submit(Lock& lock, const Instruction& instruction);
  InstructionList& append() { return queue_.append(core_->executor.next_sequence()); }
  /// Keeps the queue bounded: runs what can run when it is long.
  void bound_queue(Lock& lock);
  void launch_as_update(const Instruction& launch, std::span<const std::byte> arguments,
                        std::span<const std::byte> tail);
  void record_external(Lock& lock, Opcode opcode, const std::shared_ptr<EventState>& event);
  void wait_in_capture(const EventState& event);
  void wait_for_captured(const EventState& event);
  void abandon_update();
  void leave_capture();
  static void end_session(CpuCore& core, const std::shared_ptr<CaptureSession>& session);
  bool run_until_idle(Lock& lock, Executor::Deadline deadline);
  uint16_t thread_limit() const;

  const std::shared_ptr<CpuCore> core_;
  Device& device_;
  const StreamOptions options_;
  const bool is_default_;

  // Guarded by the core's mutex.
  StreamQueue queue_;
  CoreLimit core_limit_;
  bool closed_ = false;
  std::shared_ptr<CaptureSession> capture_;  ///< the one in which it takes part
  uint16_t lane_ = 0;                        ///< there
  std::optional<Update> update_;
  InstructionList staged_;              ///< the update's launches
  uint16_t label_ = 0;                  ///< of the launches that come next
  std::vector<MemoryAccess> accesses_;  ///< of the launches of a capture that come next; empty: not known
};

}  // namespace reprise::device::cpu
