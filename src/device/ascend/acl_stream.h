#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "device/ascend/ascend_stream.h"
#include "device/ascend/capture_session.h"

namespace reprise::device::ascend {

aclrtMemcpyKind acl_copy_kind(CopyKind kind);

/// A stream of the runtime. A call is checked against what the host knows (Reprise's rules where they are narrower than
/// the runtime's), given to the runtime, and noted if it is part of a capture.
class AclStream : public AscendStream {
 public:
  AclStream(std::shared_ptr<AscendCore> core, Device& device, StreamOptions options, bool is_default);
  ~AclStream() override;

  Device& device() override { return device_; }
  const StreamOptions& options() const override { return options_; }
  const AclLibrary& library() const override { return *core_->library; }

  void launch(std::unique_ptr<PreparedLaunch> launch) override;
  void enter_core_limit() override;
  void leave_core_limit() noexcept override;

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

  // For the graph; locks the mutex itself.
  void queue_replay(GraphState& graph);

 private:
  using Lock = std::unique_lock<std::mutex>;
  /// The task update that is open: launches wait for its end, so that one that fails changes nothing.
  struct Update {
    AscendTaskGroup* group;
    std::shared_ptr<GraphState> graph;
    std::vector<std::unique_ptr<PreparedLaunch>> launches;
    std::vector<CoreLimit> limits;
    std::optional<Error> error;
  };

  void check_open(std::string_view call) const;
  void check_plain(const char* call) const;
  [[noreturn]] void fail_update(ErrorCode code, std::string message);
  /// The checks of a call other than a launch; yields the capture in which the stream takes part, or null.
  std::shared_ptr<CaptureSession> check_submission(const char* call);
  /// Gives something to the runtime with `submit(raw stream, name of the call)`.
  void submit(const std::shared_ptr<CaptureSession>& session, const char* doing,
              const std::function<int(aclrtStream raw, const char*& call)>& submission);
  /// A call of a capture has failed: asks whether the capture is lost.
  void note_failure(CaptureSession& session, const Error& error);
  void note_submission();
  void record_external(const std::shared_ptr<EventState>& event, bool wait);
  void wait_for_captured(const EventState& event, const std::shared_ptr<CaptureSession>& session);
  static GraphRecord::Entry entry_of(const PreparedLaunch& launch, uint16_t lane, CoreLimit limit);
  void launch_in_update(std::unique_ptr<PreparedLaunch> launch, CoreLimit limit);
  void issue_update(Update& update);
  void abandon_update();
  void leave_capture();
  void end_session(CaptureSession& session);
  std::optional<Error> end_raw_capture(CaptureSession& session) const;
  /// What a destructor does about a capture; true when the runtime's stream is no longer this object's to end.
  bool leave_on_destruction();
  bool is_limited() const;

  const std::shared_ptr<AscendCore> core_;
  Device& device_;
  const StreamOptions options_;
  const bool is_default_;
  const std::shared_ptr<StreamProgress> progress_;

  // Guarded by the core's mutex.
  CoreLimit core_limit_;
  bool closed_ = false;
  std::shared_ptr<CaptureSession> capture_;  ///< the one in which it takes part
  uint16_t lane_ = 0;                        ///< there
  std::optional<Update> update_;
};

}  // namespace reprise::device::ascend
