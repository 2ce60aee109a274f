// Capture, task groups and task updates of QueuedStream.
#include <thread>

#include "device/cpu/queued_stream.h"

namespace reprise::device::cpu {

void QueuedStream::begin_capture(CaptureMode mode) {
  const Lock lock(core_->mutex);
  check_open("begin_capture");
  if (is_default_)
    throw Error(ErrorCode::kCaptureImplicit, "the default stream cannot capture")
        .remedy("capture on a stream made by create_stream()");
  check_plain("begin_capture");
  if (update_) throw Error(ErrorCode::kTaskGroupState, "begin_capture inside a task update");
  capture_ = std::make_shared<CaptureSession>(core_, mode, *this);
  lane_ = 0;
  core_->begin_session(*capture_);
}

void QueuedStream::leave_capture() {
  capture_ = nullptr;
  lane_ = 0;
  accesses_.clear();
}

void QueuedStream::end_session(CpuCore& core, const std::shared_ptr<CaptureSession>& session) {
  core.end_session(*session);
  session->release_events();
  for (QueuedStream* stream : session->streams()) {
    if (stream != nullptr) stream->leave_capture();
  }
}

std::unique_ptr<CapturedGraph> QueuedStream::end_capture() {
  std::shared_ptr<CaptureSession> session;
  const Lock lock(core_->mutex);
  check_open("end_capture");
  session = capture_;
  if (session == nullptr) throw Error(ErrorCode::kStreamNotCapturing, "end_capture on a stream that does not capture");
  if (!session->is_origin(lane_))
    throw Error(ErrorCode::kCaptureUnmatched, "end_capture on a stream that joined the capture")
        .remedy("end it on the stream that began it");
  // Whatever comes out of it, the capture is over and its streams are ordinary ones again.
  end_session(*core_, session);
  if (session->mode() != CaptureMode::kRelaxed && session->thread() != std::this_thread::get_id())
    throw Error(ErrorCode::kCaptureWrongThread, "end_capture on another thread than begin_capture")
        .remedy("use CaptureMode::kRelaxed to end a capture on any thread");
  std::unique_ptr<CpuCapturedGraph> graph = session->finish();
  ++core_->counters.captures;
  return graph;
}

CaptureInfo QueuedStream::capture_info() {
  const Lock lock(core_->mutex);
  if (capture_ == nullptr) return {};
  return {capture_->status(), &capture_->graph()};
}

void QueuedStream::begin_task_group() {
  const Lock lock(core_->mutex);
  check_open("begin_task_group");
  if (capture_ == nullptr)
    throw Error(ErrorCode::kStreamNotCapturing, "begin_task_group on a stream that does not capture");
  capture_->begin_group(lane_);
}

TaskGroup* QueuedStream::end_task_group() {
  const Lock lock(core_->mutex);
  check_open("end_task_group");
  if (capture_ == nullptr)
    throw Error(ErrorCode::kStreamNotCapturing, "end_task_group on a stream that does not capture");
  return capture_->end_group(lane_);
}

void QueuedStream::begin_task_update(TaskGroup& group) {
  auto* own = dynamic_cast<CpuTaskGroup*>(&group);
  if (own == nullptr || own->program().core() != core_.get())
    throw Error(ErrorCode::kInvalidArgument, "the task group belongs to another device");
  const Lock lock(core_->mutex);
  check_plain("begin_task_update");
  if (update_) throw Error(ErrorCode::kTaskGroupState, "a task update is already open on this stream");
  if (own->updating) throw Error(ErrorCode::kTaskGroupState, "the task group is being updated by another stream");
  if (!own->program().is_sealed())
    throw Error(ErrorCode::kGraphCapturing, "cannot update a task group while its graph is being captured");
  own->updating = true;
  update_ = Update{own, own->program().shared_from_this(), std::nullopt};
}

void QueuedStream::fail_update(ErrorCode code, std::string message) {
  const Error error(code, std::move(message));
  if (!update_->error) update_->error = error;
  throw error;
}

void QueuedStream::launch_as_update(const Instruction& launch, std::span<const std::byte> arguments,
                                    std::span<const std::byte> tail) {
  CpuTaskGroup& group = *update_->group;
  const size_t index = staged_.size();
  if (index == static_cast<size_t>(group.launches())) {
    fail_update(ErrorCode::kTaskUpdateMismatch,
                fmt::format("the update launches {} as one more than the {} kernels that were captured",
                            launch.launch.kernel->name, group.launches()));
  }
  if (kernel_kind(*launch.launch.kernel) != group.kinds[index]) {
    fail_update(ErrorCode::kTaskUpdateMismatch, fmt::format("launch {} of the update is {}, but {} was captured", index,
                                                            launch.launch.kernel->name, group.kinds[index]));
  }
  Instruction update(Opcode::kUpdateLaunch);
  update.threads = launch.threads;
  update.update = {launch.launch, &group.group_launches()[index]};
  staged_.add_launch(update, arguments, tail);
}

void QueuedStream::abandon_update() {
  if (update_) update_->group->updating = false;
  update_.reset();
  staged_.clear();
}

void QueuedStream::end_task_update() {
  Lock lock(core_->mutex);
  check_plain("end_task_update");
  if (!update_) throw Error(ErrorCode::kTaskGroupState, "no task update is open on this stream");
  std::optional<Error> error = update_->error;
  const int64_t captured = update_->group->launches();
  if (!error && static_cast<int64_t>(staged_.size()) != captured) {
    error = Error(ErrorCode::kTaskUpdateMismatch, "the update launches {} kernels, but {} were captured",
                  staged_.size(), captured);
  }
  if (!error && captured > 0) {
    for (const Instruction& update : staged_.instructions()) {
      const std::byte* block = update.update.launch.arguments;
      append().add_launch(update, {block, update.argument_bytes},
                          {block + tail_offset(update.argument_bytes), update.tail_bytes});
    }
    queue_.keep(update_->program);
  }
  if (!error) ++core_->counters.task_updates;
  abandon_update();
  if (error) throw Error(*error);
  bound_queue(lock);
}

}  // namespace reprise::device::cpu
