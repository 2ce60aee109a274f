#include "device/ascend/acl_stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"

namespace reprise::device::ascend {
namespace {

/// Reprise's priorities lie around 0, the runtime's go from 0, the most urgent one, to 7.
constexpr int kPriorityOffset = 4;

uint64_t word_of(const void* address) { return reinterpret_cast<uintptr_t>(address); }

aclrtStream make_raw_stream(const AscendCore& core, const StreamOptions& options) {
  core.enter();
  aclrtStream raw = nullptr;
  core.check(core.library->aclrtCreateStreamWithConfig(&raw, static_cast<uint32_t>(options.priority + kPriorityOffset),
                                                       ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC),
             "aclrtCreateStreamWithConfig", fmt::format("making the stream '{}'", options.name));
  if (core.features.has(Feature::kStopOnFailure)) {
    // What comes behind a failure would compute with its remains.
    const int code = core.library->aclrtSetStreamFailureMode(raw, ACL_STOP_ON_FAILURE);
    if (code != ACL_SUCCESS) log_debug("aclrtSetStreamFailureMode: {}", acl_code_text(code));
  }
  return raw;
}

void check_range(const void* address, size_t bytes, const char* call) {
  if (address == nullptr && bytes > 0) throw Error(ErrorCode::kInvalidArgument, "{} with a null address", call);
}

}  // namespace

aclrtMemcpyKind acl_copy_kind(CopyKind kind) {
  switch (kind) {
    case CopyKind::kHostToDevice:
      return ACL_MEMCPY_HOST_TO_DEVICE;
    case CopyKind::kDeviceToHost:
      return ACL_MEMCPY_DEVICE_TO_HOST;
    case CopyKind::kDeviceToDevice:
      break;
  }
  return ACL_MEMCPY_DEVICE_TO_DEVICE;
}

AclStream::AclStream(std::shared_ptr<AscendCore> core, Device& device, StreamOptions options, bool is_default)
    : core_(std::move(core)),
      device_(device),
      options_(std::move(options)),
      is_default_(is_default),
      progress_(std::make_shared<StreamProgress>()) {
  progress_->raw = make_raw_stream(*core_, options_);
  core_->register_stream(progress_);
}

AclStream::~AclStream() {
  try {
    core_->enter();
    if (leave_on_destruction()) return;
  } catch (const std::exception& error) {
    log_error("stream '{}': {}", options_.name, error.what());
  }
  core_->end_stream(*progress_, options_.name);
}

void AclStream::close() {
  {
    const Lock lock(core_->mutex);
    if (closed_) return;
    check_plain("close");
    abandon_update();
  }
  core_->enter();
  constexpr std::string_view kDoing = "closing a stream";
  if (!core_->wait_stream(*progress_, core_->wait_limit_ms, kDoing)) core_->give_up(kDoing);
  {
    const Lock lock(core_->mutex);
    closed_ = true;
  }
  core_->end_stream(*progress_, options_.name);
  if (std::exception_ptr error = core_->take_error(*progress_)) std::rethrow_exception(error);
}

void AclStream::check_open(std::string_view call) const {
  if (closed_) throw Error(ErrorCode::kFailedPrecondition, "{} on a closed stream", call);
}

void AclStream::check_plain(const char* call) const {
  check_open(call);
  if (capture_ != nullptr)
    throw Error(ErrorCode::kStreamCapturing, "{} on a stream that takes part in a capture", call);
}

// ---- waiting

void AclStream::synchronize() {
  if (!synchronize_for(core_->wait_limit_ms)) core_->give_up(fmt::format("waiting for the stream '{}'", options_.name));
}

bool AclStream::synchronize_for(int timeout_ms) {
  {
    const Lock lock(core_->mutex);
    check_plain("synchronize");
  }
  core_->enter();
  if (!core_->wait_stream(*progress_, timeout_ms, "waiting for a stream")) return false;
  if (std::exception_ptr error = core_->take_error(*progress_)) std::rethrow_exception(error);
  return true;
}

bool AclStream::query() {
  {
    const Lock lock(core_->mutex);
    check_plain("query");
  }
  core_->enter();
  return core_->query_stream(*progress_, "asking a stream");
}

// ---- work

void AclStream::note_submission() {
  core_->place_fence(*progress_);
  progress_->submitted.store(core_->next_sequence(), std::memory_order_release);
}

std::shared_ptr<CaptureSession> AclStream::check_submission(const char* call) {
  const Lock lock(core_->mutex);
  check_open(call);
  if (capture_ != nullptr) {
    capture_->check_valid();
    capture_->refuse_in_group(call);
  } else if (update_) {
    fail_update(ErrorCode::kTaskGroupOperation,
                fmt::format("{} inside a task update, which holds launches only", call));
  }
  return capture_;
}

void AclStream::submit(const std::shared_ptr<CaptureSession>& session, const char* doing,
                       const std::function<int(aclrtStream, const char*&)>& submission) {
  core_->enter();
  if (session == nullptr) note_submission();
  const char* call = "";
  const int code = submission(progress_->raw, call);
  if (code == ACL_SUCCESS) [[likely]]
    return;
  try {
    core_->check(code, call, doing);
  } catch (const Error& error) {
    if (session != nullptr) note_failure(*session, error);
    throw;
  }
}

void AclStream::note_failure(CaptureSession& session, const Error& error) {
  aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  aclmdlRI graph = nullptr;
  const int code = core_->library->aclmdlRICaptureGetInfo(progress_->raw, &status, &graph);
  const Lock lock(core_->mutex);
  session.note_group_error(error);
  if (code == ACL_SUCCESS && status == ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED) session.invalidate();
}

void AclStream::launch(std::unique_ptr<PreparedLaunch> launch) {
  std::shared_ptr<CaptureSession> session;
  CoreLimit limit;
  {
    const Lock lock(core_->mutex);
    check_open("launch");
    limit = core_limit_;
    if (update_) return launch_in_update(std::move(launch), limit);
    session = capture_;
    if (session != nullptr) session->check_launch(lane_);
  }
  submit(session, "launching a kernel", [&](aclrtStream raw, const char*& call) {
    call = launch->name();
    const LimitScope scope(*this);
    return launch->issue(raw);
  });
  core_->counters.launches.fetch_add(1, std::memory_order_relaxed);
  if (session == nullptr) return;
  const Lock lock(core_->mutex);
  session->add(entry_of(*launch, lane_, limit));
}

GraphRecord::Entry AclStream::entry_of(const PreparedLaunch& launch, uint16_t lane, CoreLimit limit) {
  GraphRecord::Entry entry{.lane = lane, .name = std::string(launch.name()), .digest = launch.digest(), .limit = limit};
  for (const void* address : launch.addresses()) entry.addresses.push_back(word_of(address));
  return entry;
}

void AclStream::copy_async(void* destination, const void* source, size_t bytes, CopyKind kind) {
  check_range(destination, bytes, "copy_async");
  check_range(source, bytes, "copy_async");
  const void* host = kind == CopyKind::kHostToDevice ? source : kind == CopyKind::kDeviceToHost ? destination : nullptr;
  bool pageable = false;
  {
    const Lock lock(core_->mutex);
    pageable = host != nullptr && bytes > 0 && !core_->memory.is_pinned(host, bytes);
    if (pageable && capture_ != nullptr) {
      throw Error(ErrorCode::kPageableMemory, "copy_async of pageable host memory during a capture")
          .remedy("allocate it with MemoryKind::kPinnedHost");
    }
  }
  const std::shared_ptr<CaptureSession> session = check_submission("copy");
  if (bytes == 0) return;
  submit(session, "queueing a copy", [&](aclrtStream raw, const char*& call) {
    call = "aclrtMemcpyAsync";
    return core_->library->aclrtMemcpyAsync(destination, bytes, source, bytes, acl_copy_kind(kind), raw);
  });
  if (session != nullptr) {
    const Lock lock(core_->mutex);
    session->add({.action = GraphRecord::Action::kCopy,
                  .lane = lane_,
                  .digest = bytes,
                  .addresses = {word_of(destination), word_of(source)}});
  } else if (pageable) {
    constexpr std::string_view kDoing = "waiting for a copy of pageable memory";
    if (!core_->wait_stream(*progress_, core_->wait_limit_ms, kDoing)) core_->give_up(kDoing);
  }
}

void AclStream::fill_async(void* destination, unsigned char value, size_t bytes) {
  check_range(destination, bytes, "fill_async");
  const std::shared_ptr<CaptureSession> session = check_submission("fill");
  if (bytes == 0) return;
  submit(session, "queueing a fill", [&](aclrtStream raw, const char*& call) {
    call = "aclrtMemsetAsync";
    return core_->library->aclrtMemsetAsync(destination, bytes, value, bytes, raw);
  });
  if (session == nullptr) return;
  const Lock lock(core_->mutex);
  session->add({.action = GraphRecord::Action::kFill,
                .lane = lane_,
                .digest = bytes * 256 + value,
                .addresses = {word_of(destination)}});
}

void AclStream::host_function(void (*function)(void* data), void* data) {
  if (function == nullptr) throw Error(ErrorCode::kInvalidArgument, "host_function with a null function");
  core_->require(Feature::kHostFunction, "host_function");
  const std::shared_ptr<CaptureSession> session = check_submission("host_function");
  auto host_call = std::make_unique<HostCall>(HostCall{function, data, progress_->errors});
  if (session != nullptr) host_call->errors = session->state().errors;
  submit(session, "queueing a host function", [&](aclrtStream raw, const char*& call) {
    call = "aclrtLaunchHostFunc";
    return core_->library->aclrtLaunchHostFunc(raw, session != nullptr ? HostCall::run : HostCall::run_once,
                                               host_call.get());
  });
  if (session == nullptr) {
    // NOLINTNEXTLINE(bugprone-unused-return-value): run_once deletes it
    static_cast<void>(host_call.release());
    return;
  }
  const Lock lock(core_->mutex);
  session->state().host_calls.push_back(std::move(host_call));
  session->add({.action = GraphRecord::Action::kHostFunction, .lane = lane_, .addresses = {word_of(data)}});
}

void AclStream::queue_replay(GraphState& graph) {
  if (core_ != graph.core) throw Error(ErrorCode::kInvalidArgument, "the stream belongs to another device");
  bool elsewhere = false;
  {
    const Lock lock(core_->mutex);
    check_plain("replay");
    if (update_) fail_update(ErrorCode::kTaskGroupOperation, "replay inside a task update, which holds launches only");
    core_->enter();
    // Replays of one graph follow one another, on whichever streams.
    elsewhere = graph.last_stream != nullptr && graph.last_stream != progress_.get();
    if (elsewhere && !graph.marked) {
      throw Error(ErrorCode::kFailedPrecondition, "the graph's last replay, on another stream, cannot be waited for")
          .remedy("replay it on that stream");
    }
  }
  bool marked = true;
  submit(nullptr, "replaying a graph", [&](aclrtStream raw, const char*& call) {
    const AclLibrary& library = *core_->library;
    if (elsewhere) {
      call = "aclrtStreamWaitEvent";
      if (const int code = library.aclrtStreamWaitEvent(raw, graph.replayed->get())) return code;
    }
    call = "aclmdlRIExecuteAsync";
    if (const int code = library.aclmdlRIExecuteAsync(graph.raw, raw)) return code;
    // The replay is queued by now, whatever becomes of its mark.
    const int code = library.aclrtRecordEvent(graph.replayed->get(), raw);
    marked = code == ACL_SUCCESS;
    if (!marked) log_warning("{}", acl_error(library, code, "aclrtRecordEvent", "marking a replay").what());
    return static_cast<int>(ACL_SUCCESS);
  });
  core_->counters.replays.fetch_add(1, std::memory_order_relaxed);
  core_->counters.external_waits += graph.external_waits;
  core_->counters.external_records += graph.external_records;
  const Lock lock(core_->mutex);
  graph.last_stream = progress_.get();
  graph.marked = marked;
  if (!marked) graph.note_unmarked(progress_);
  if (!graph.host_calls.empty() && std::find(progress_->graph_errors.begin(), progress_->graph_errors.end(),
                                             graph.errors) == progress_->graph_errors.end())
    progress_->graph_errors.push_back(graph.errors);
}

// ---- settings

bool AclStream::is_limited() const {
  const Lock lock(core_->mutex);
  return core_limit_ != CoreLimit{};
}

void AclStream::enter_core_limit() {
  if (!is_limited()) return;
  core_->enter();
  core_->check(core_->library->aclrtUseStreamResInCurrentThread(progress_->raw), "aclrtUseStreamResInCurrentThread",
               "using a stream's core limit");
}

void AclStream::leave_core_limit() noexcept {
  if (!is_limited()) return;
  log_acl(*core_->library, core_->library->aclrtUnuseStreamResInCurrentThread(progress_->raw),
          "aclrtUnuseStreamResInCurrentThread", "leaving a stream's core limit");
}

void AclStream::set_core_limit(CoreLimit limit) {
  const int cores = device_.capabilities().cores;
  for (const int value : {limit.matrix_cores, limit.vector_cores}) {
    if (value < 0 || value > cores)
      throw Error(ErrorCode::kInvalidArgument, "core limit {} is not between 0 and {}", value, cores);
  }
  {
    const Lock lock(core_->mutex);
    check_open("set_core_limit");
    if (limit == core_limit_) return;
  }
  core_->require(Feature::kCoreLimit, "set_core_limit");
  core_->enter();
  const AclLibrary& library = *core_->library;
  constexpr std::string_view kDoing = "limiting the cores of a stream";
  if (limit == CoreLimit{}) {
    core_->check(library.aclrtResetStreamResLimit(progress_->raw), "aclrtResetStreamResLimit", kDoing);
  } else {
    const auto set = [&](aclrtDevResLimitType type, int value, int most) {
      const int wanted = value == 0 ? most : std::min(value, most);
      core_->check(library.aclrtSetStreamResLimit(progress_->raw, type, static_cast<uint32_t>(wanted)),
                   "aclrtSetStreamResLimit", kDoing);
    };
    set(ACL_RT_DEV_RES_CUBE_CORE, limit.matrix_cores, core_->cube_cores);
    set(ACL_RT_DEV_RES_VECTOR_CORE, limit.vector_cores, core_->vector_cores);
  }
  const Lock lock(core_->mutex);
  core_limit_ = limit;
}

CoreLimit AclStream::core_limit() const {
  const Lock lock(core_->mutex);
  return core_limit_;
}

}  // namespace reprise::device::ascend
