// Events, capture, task groups and task updates of AclStream.
#include <algorithm>
#include <thread>

#include "base/log.h"
#include "device/ascend/acl_stream.h"

namespace reprise::device::ascend {
namespace {

aclmdlRICaptureMode acl_mode(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::kGlobal:
      return ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    case CaptureMode::kThreadLocal:
      return ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
    case CaptureMode::kRelaxed:
      break;
  }
  return ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
}

/// What must stay the same in an update: "add" of "add.i32".
std::string_view kind_of(std::string_view name) { return name.substr(0, name.find('.')); }

}  // namespace

// ---- events

void AclStream::record_external(const std::shared_ptr<EventState>& event, bool wait) {
  const std::shared_ptr<CaptureSession> session = check_submission(wait ? "wait" : "record");
  submit(session, wait ? "waiting for an external event" : "recording an external event",
         [&](aclrtStream raw, const char*& call) { return wait ? event->wait(raw, call) : event->record(raw, call); });
  if (session == nullptr) {
    ++(wait ? core_->counters.external_waits : core_->counters.external_records);
    return;
  }
  const Lock lock(core_->mutex);
  session->external(wait ? GraphRecord::Action::kExternalWait : GraphRecord::Action::kExternalRecord, lane_, event);
}

void AclStream::record(Event& event) {
  const std::shared_ptr<EventState>& state = AscendEvent::of(event, *core_).state();
  if (state->kind() == EventKind::kExternal) return record_external(state, false);
  const std::shared_ptr<CaptureSession> session = check_submission("record");
  if (session == nullptr) {
    core_->enter();
    const Lock lock(core_->mutex);
    if (state->capture == nullptr) {
      state->prepare_record(*progress_);
    } else if (is_default_) {
      throw Error(ErrorCode::kCaptureImplicit, "the default stream records an event of a live capture");
    }
  }
  submit(session, "recording an event", [&](aclrtStream raw, const char*& call) { return state->record(raw, call); });
  const Lock lock(core_->mutex);
  if (session != nullptr) {
    session->record(lane_, state);
  } else {
    state->capture = nullptr;
    state->recorded = true;
  }
}

void AclStream::wait(Event& event) {
  const std::shared_ptr<EventState>& state = AscendEvent::of(event, *core_).state();
  if (state->kind() == EventKind::kExternal) return record_external(state, true);
  std::shared_ptr<CaptureSession> own;
  std::shared_ptr<CaptureSession> others;
  {
    const Lock lock(core_->mutex);
    check_open("wait");
    own = capture_;
    if (own != nullptr) own->check_valid();
    if (state->capture != nullptr) others = state->capture->shared_from_this();
    // Nothing was ever recorded; an update still refuses the call.
    if (others == nullptr && !state->recorded && !update_) return;
  }
  if (own == nullptr && others != nullptr) return wait_for_captured(*state, others);
  check_submission("wait");
  try {
    submit(own, "waiting for an event", [&](aclrtStream raw, const char*& call) { return state->wait(raw, call); });
  } catch (const Error& error) {
    const Lock lock(core_->mutex);
    // Both captures are lost, whichever of them the runtime names.
    if (error.code() == ErrorCode::kCaptureConflict && own != nullptr && others != nullptr) {
      own->invalidate();
      others->invalidate();
    }
    throw;
  }
  if (own == nullptr) return;
  const Lock lock(core_->mutex);
  if (state->capture == own.get()) own->wait(lane_, *state);
}

void AclStream::wait_for_captured(const EventState& event, const std::shared_ptr<CaptureSession>& session) {
  {
    const Lock lock(core_->mutex);
    if (update_) fail_update(ErrorCode::kTaskGroupOperation, "wait inside a task update, which holds launches only");
    if (is_default_) {
      throw Error(ErrorCode::kCaptureImplicit, "the default stream waits for an event of a live capture")
          .remedy("fork to a stream made by create_stream()");
    }
    session->check_valid();
    session->refuse_in_group("wait of another stream");
  }
  submit(session, "joining a capture", [&](aclrtStream raw, const char*& call) { return event.wait(raw, call); });
  const Lock lock(core_->mutex);
  progress_->capturing.store(true, std::memory_order_release);
  lane_ = session->join(*this, event);
  capture_ = session;
}

// ---- capture

void AclStream::begin_capture(CaptureMode mode) {
  core_->dig_graves(false);
  core_->enter();
  const AclLibrary& library = *core_->library;
  const Lock lock(core_->mutex);
  check_open("begin_capture");
  if (is_default_)
    throw Error(ErrorCode::kCaptureImplicit, "the default stream cannot capture")
        .remedy("capture on a stream made by create_stream()");
  check_plain("begin_capture");
  if (update_) throw Error(ErrorCode::kTaskGroupState, "begin_capture inside a task update");
  core_->require(Feature::kGraph, "begin_capture");
  // Nobody may record a fence into the capture.
  progress_->capturing.store(true, std::memory_order_release);
  constexpr std::string_view kDoing = "beginning a capture";
  aclmdlRI raw_graph = nullptr;
  aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  try {
    core_->check(library.aclmdlRICaptureBegin(progress_->raw, acl_mode(mode)), "aclmdlRICaptureBegin", kDoing);
    const int code = library.aclmdlRICaptureGetInfo(progress_->raw, &status, &raw_graph);
    if (code != ACL_SUCCESS) {
      const Error error = acl_error(library, code, "aclmdlRICaptureGetInfo", kDoing);
      if (library.aclmdlRICaptureEnd(progress_->raw, &raw_graph) == ACL_SUCCESS) library.aclmdlRIDestroy(raw_graph);
      throw Error(error);
    }
  } catch (const Error&) {
    progress_->capturing.store(false, std::memory_order_release);
    throw;
  }
  capture_ = std::make_shared<CaptureSession>(core_, mode, *this, raw_graph);
  lane_ = 0;
  core_->begin_session(*capture_);
}

void AclStream::leave_capture() {
  capture_ = nullptr;
  lane_ = 0;
  progress_->capturing.store(false, std::memory_order_release);
}

void AclStream::end_session(CaptureSession& session) {
  core_->end_session(session);
  session.release_events();
  session.state().capturing = false;
  for (AclStream* stream : session.streams()) {
    if (stream != nullptr) stream->leave_capture();
  }
}

std::unique_ptr<CapturedGraph> AclStream::end_capture() {
  core_->enter();
  std::shared_ptr<CaptureSession> session;  // let go of without the mutex
  std::unique_ptr<AscendCapturedGraph> graph;
  std::optional<Error> error;
  {
    const Lock lock(core_->mutex);
    check_open("end_capture");
    session = capture_;
    if (session == nullptr)
      throw Error(ErrorCode::kStreamNotCapturing, "end_capture on a stream that does not capture");
    if (!session->is_origin(lane_))
      throw Error(ErrorCode::kCaptureUnmatched, "end_capture on a stream that joined the capture")
          .remedy("end it on the stream that began it");
    // Whatever comes out of it, the capture is over and its streams are ordinary ones again.
    end_session(*session);
    error = end_raw_capture(*session);
    graph = session->take_graph();
  }
  for (const auto& orphan : session->take_orphans()) core_->end_stream(*orphan, "joined");
  if (error) {
    // The runtime has destroyed what there was.
    session->state().raw = nullptr;
    throw Error(*error);
  }
  // Its mark is made here, so that a device without events fails the capture and not every replay.
  session->state().replayed = std::make_unique<RawEvent>(core_->library, core_->make_event());
  core_->counters.captures.fetch_add(1, std::memory_order_relaxed);
  return graph;
}

std::optional<Error> AclStream::end_raw_capture(CaptureSession& session) const {
  const AclLibrary& library = *core_->library;
  aclmdlRI raw_graph = nullptr;
  const int code = library.aclmdlRICaptureEnd(progress_->raw, &raw_graph);
  std::optional<Error> error;
  if (code != ACL_SUCCESS) error = acl_error(library, code, "aclmdlRICaptureEnd", "ending a capture");
  if (code == ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD) {
    // The runtime has let go of the capture, but the graph that it named at the begin is still to be destroyed.
    const int destroyed = library.aclmdlRIDestroy(session.state().raw);
    if (destroyed != ACL_SUCCESS) log_debug("aclmdlRIDestroy: {}", acl_code_text(destroyed));
  }
  if (code == ACL_ERROR_RT_STREAM_UNJOINED || code == ACL_ERROR_RT_CAPTURE_DEPENDENCY) {
    // The runtime names no stream, and one code for both.
    if (std::optional<Error> found = session.find_unjoined()) error = std::move(found);
  }
  if (session.is_invalidated() && code != ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD)
    error = Error(ErrorCode::kCaptureInvalidated, "the capture was invalidated by an earlier failure");
  if (!error && raw_graph != session.state().raw)
    error = Error(ErrorCode::kInternal, "ending a capture yields another graph than began");
  if (error && code == ACL_SUCCESS) {
    log_acl(library, library.aclmdlRIDestroy(raw_graph), "aclmdlRIDestroy", "destroying a capture that failed");
  }
  return error;
}

CaptureInfo AclStream::capture_info() {
  const Lock lock(core_->mutex);
  if (capture_ == nullptr) return {};
  return {capture_->status(), &capture_->graph()};
}

bool AclStream::leave_on_destruction() {
  std::shared_ptr<CaptureSession> session;  // let go of without the mutex
  const Lock lock(core_->mutex);
  if (closed_) return true;
  abandon_update();
  session = capture_;
  if (session == nullptr) return false;
  session->invalidate();
  if (session->is_origin(lane_)) {
    end_session(*session);
    if (const std::optional<Error> error = end_raw_capture(*session)) log_debug("{}", error->what());
    session->state().raw = nullptr;
    return false;
  }
  // The runtime does not end a stream that takes part in a capture: who ends the capture does it then.
  session->forget_stream(lane_);
  session->inherit_stream(progress_);
  capture_ = nullptr;
  return true;
}

// ---- task groups

void AclStream::begin_task_group() {
  core_->enter();
  const Lock lock(core_->mutex);
  check_open("begin_task_group");
  if (capture_ == nullptr)
    throw Error(ErrorCode::kStreamNotCapturing, "begin_task_group on a stream that does not capture");
  capture_->check_begin_group();
  core_->require(Feature::kTaskUpdate, "begin_task_group");
  core_->check(core_->library->aclmdlRICaptureTaskGrpBegin(progress_->raw), "aclmdlRICaptureTaskGrpBegin",
               "beginning a task group");
  capture_->begin_group(lane_);
}

TaskGroup* AclStream::end_task_group() {
  core_->enter();
  const Lock lock(core_->mutex);
  check_open("end_task_group");
  if (capture_ == nullptr)
    throw Error(ErrorCode::kStreamNotCapturing, "end_task_group on a stream that does not capture");
  capture_->check_end_group(lane_);
  aclrtTaskGrp handle = nullptr;
  const int code = core_->library->aclmdlRICaptureTaskGrpEnd(progress_->raw, &handle);
  if (code != ACL_SUCCESS) {
    capture_->note_group_error(acl_error(*core_->library, code, "aclmdlRICaptureTaskGrpEnd", "ending a task group"));
  }
  return capture_->end_group(lane_, handle);
}

// ---- task updates

void AclStream::begin_task_update(TaskGroup& group) {
  auto* own = dynamic_cast<AscendTaskGroup*>(&group);
  if (own == nullptr || own->graph().core != core_)
    throw Error(ErrorCode::kInvalidArgument, "the task group belongs to another device");
  const Lock lock(core_->mutex);
  check_plain("begin_task_update");
  if (update_) throw Error(ErrorCode::kTaskGroupState, "a task update is already open on this stream");
  if (own->updating) throw Error(ErrorCode::kTaskGroupState, "the task group is being updated by another stream");
  if (own->graph().capturing)
    throw Error(ErrorCode::kGraphCapturing, "cannot update a task group while its graph is being captured");
  own->updating = true;
  update_.emplace(Update{own, own->graph().shared_from_this(), {}, {}, std::nullopt});
}

void AclStream::fail_update(ErrorCode code, std::string message) {
  const Error error(code, std::move(message));
  if (!update_->error) update_->error = error;
  throw error;
}

void AclStream::launch_in_update(std::unique_ptr<PreparedLaunch> launch, CoreLimit limit) {
  AscendTaskGroup& group = *update_->group;
  const size_t index = update_->launches.size();
  if (index == group.entries().size()) {
    fail_update(ErrorCode::kTaskUpdateMismatch,
                fmt::format("the update launches {} as one more than the {} kernels that were captured", launch->name(),
                            group.entries().size()));
  }
  const std::string& captured = update_->graph->record.entries()[group.entries()[index]].name;
  if (kind_of(launch->name()) != kind_of(captured)) {
    fail_update(ErrorCode::kTaskUpdateMismatch,
                fmt::format("launch {} of the update is {}, but {} was captured", index, launch->name(), captured));
  }
  update_->launches.push_back(std::move(launch));
  update_->limits.push_back(limit);
}

void AclStream::abandon_update() {
  if (update_) update_->group->updating = false;
  update_.reset();
}

void AclStream::end_task_update() {
  std::optional<Update> update;  // its launches end without the mutex
  {
    const Lock lock(core_->mutex);
    check_plain("end_task_update");
    if (!update_) throw Error(ErrorCode::kTaskGroupState, "no task update is open on this stream");
    update = std::exchange(update_, std::nullopt);
    const size_t captured = update->group->entries().size();
    if (!update->error && update->launches.size() != captured) {
      update->error = Error(ErrorCode::kTaskUpdateMismatch, "the update launches {} kernels, but {} were captured",
                            update->launches.size(), captured);
    }
  }
  if (!update->error) {
    try {
      issue_update(*update);
    } catch (const Error& error) {
      update->error = error;
    }
  }
  const Lock lock(core_->mutex);
  update->group->updating = false;
  if (update->error) throw Error(*update->error);
  GraphState& graph = *update->graph;
  for (size_t i = 0; i < update->launches.size(); ++i) {
    const size_t place = update->group->entries()[i];
    graph.record.replace(place, entry_of(*update->launches[i], graph.record.entries()[place].lane, update->limits[i]));
  }
  graph.note_unmarked(progress_);
  core_->counters.task_updates.fetch_add(1, std::memory_order_relaxed);
}

void AclStream::issue_update(Update& update) {
  core_->enter();
  const AclLibrary& library = *core_->library;
  constexpr std::string_view kDoing = "updating captured launches";
  note_submission();
  core_->check(library.aclmdlRICaptureTaskUpdateBegin(progress_->raw, update.group->handle()),
               "aclmdlRICaptureTaskUpdateBegin", kDoing);
  std::optional<Error> failure;
  const auto note = [&](int code, const char* call) {
    if (code == ACL_SUCCESS || failure) return;
    if (code == ACL_ERROR_RT_INTERNAL_ERROR) {
      failure = acl_error_as(ErrorCode::kTaskUpdateMismatch, library, code, call, kDoing);
      return;
    }
    try {
      core_->check(code, call, kDoing);
    } catch (const Error& error) {
      failure = error;
    }
  };
  for (const auto& launch : update.launches) {
    const LimitScope scope(*this);
    note(launch->issue(progress_->raw), launch->name());
    if (failure) break;
  }
  note(library.aclmdlRICaptureTaskUpdateEnd(progress_->raw), "aclmdlRICaptureTaskUpdateEnd");
  if (!failure) return;
  // Which launches are the new ones nobody can say.
  const Lock lock(core_->mutex);
  update.graph->damaged = true;
  throw Error(*failure);
}

}  // namespace reprise::device::ascend
