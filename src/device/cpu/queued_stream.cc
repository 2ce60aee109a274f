#include "device/cpu/queued_stream.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "device/cpu/cpu_event.h"

namespace reprise::device::cpu {
namespace {

Executor::Deadline deadline_in(int milliseconds) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
}

void check_range(const void* address, size_t bytes, const char* call) {
  if (address == nullptr && bytes > 0) throw Error(ErrorCode::kInvalidArgument, "{} with a null address", call);
}

}  // namespace

QueuedStream::QueuedStream(std::shared_ptr<CpuCore> core, Device& device, StreamOptions options, bool is_default)
    : core_(std::move(core)),
      device_(device),
      options_(std::move(options)),
      is_default_(is_default),
      queue_(options_.priority) {
  const std::lock_guard lock(core_->mutex);
  core_->executor.add(queue_);
}

QueuedStream::~QueuedStream() {
  std::shared_ptr<CaptureSession> ended;  // let go of without the mutex
  Lock lock(core_->mutex);
  if (closed_) return;
  if (capture_ != nullptr) {
    ended = capture_;
    ended->invalidate();
    if (ended->is_origin(lane_)) {
      end_session(*core_, ended);
    } else {
      ended->forget_stream(lane_);
      leave_capture();
    }
  }
  abandon_update();
  // Work that gets on is waited for, however long it takes.
  size_t pending = queue_.pending() + 1;
  while (!queue_.empty() && queue_.pending() < pending) {
    pending = queue_.pending();
    run_until_idle(lock, deadline_in(kDestroyTimeoutMs));
  }
  if (!queue_.empty()) {
    log_error("stream '{}' is destroyed while it waits for an event; its work is lost", options_.name);
    core_->executor.wait_until_paused(lock);
    queue_.drop();
  }
  core_->executor.remove(queue_);
}

void QueuedStream::close() {
  Lock lock(core_->mutex);
  if (closed_) return;
  check_plain("close");
  abandon_update();
  run_until_idle(lock, std::nullopt);
  core_->executor.remove(queue_);
  closed_ = true;
  if (std::exception_ptr error = queue_.take_error()) std::rethrow_exception(error);
}

void QueuedStream::check_open(std::string_view call) const {
  if (closed_) throw Error(ErrorCode::kFailedPrecondition, "{} on a closed stream", call);
}

void QueuedStream::check_plain(const char* call) const {
  check_open(call);
  if (capture_ != nullptr)
    throw Error(ErrorCode::kStreamCapturing, "{} on a stream that takes part in a capture", call);
}

// Waiting.

bool QueuedStream::run_until_idle(Lock& lock, Executor::Deadline deadline) {
  return core_->executor.run_until(lock, &queue_, [this] { return queue_.empty(); }, deadline);
}

void QueuedStream::synchronize() {
  Lock lock(core_->mutex);
  check_plain("synchronize");
  run_until_idle(lock, std::nullopt);
  if (std::exception_ptr error = queue_.take_error()) std::rethrow_exception(error);
}

bool QueuedStream::synchronize_for(int timeout_ms) {
  Lock lock(core_->mutex);
  check_plain("synchronize_for");
  if (!run_until_idle(lock, deadline_in(timeout_ms))) return false;
  if (std::exception_ptr error = queue_.take_error()) std::rethrow_exception(error);
  return true;
}

bool QueuedStream::query() {
  Lock lock(core_->mutex);
  check_plain("query");
  return core_->executor.run_ready(lock, &queue_, [this] { return queue_.empty(); });
}

// Work.

void QueuedStream::bound_queue(Lock& lock) {
  if (queue_.is_long()) core_->executor.run_ready(lock, &queue_, [this] { return queue_.empty(); });
}

void QueuedStream::submit(Lock& lock, const Instruction& instruction) {
  check_open(name_of(instruction.opcode));
  if (capture_ != nullptr) {
    capture_->add(lane_, instruction);
  } else if (update_) {
    fail_update(ErrorCode::kTaskGroupOperation,
                fmt::format("{} inside a task update, which holds launches only", name_of(instruction.opcode)));
  } else {
    append().add(instruction);
    bound_queue(lock);
  }
}

void QueuedStream::launch(const Kernel& kernel, int64_t tiles, std::span<const std::byte> arguments,
                          std::span<const std::byte> tail) {
  if (tiles < 0) throw Error(ErrorCode::kInvalidArgument, "launch of {} with {} tiles", kernel.name, tiles);
  Instruction instruction(Opcode::kLaunch);
  instruction.launch = {&kernel, nullptr, tiles};
  Lock lock(core_->mutex);
  check_open("launch");
  instruction.label = label_;
  instruction.threads = thread_limit();
  if (update_) return launch_as_update(instruction, arguments, tail);
  if (capture_ != nullptr) {
    capture_->add_launch(lane_, instruction, arguments, tail, accesses_);
  } else {
    append().add_launch(instruction, arguments, tail);
    bound_queue(lock);
  }
  ++core_->counters.launches;
}

void QueuedStream::declare_accesses(std::span<const MemoryAccess> accesses) {
  const Lock lock(core_->mutex);
  if (capture_ == nullptr) return;
  accesses_.assign(accesses.begin(), accesses.end());
}

void QueuedStream::annotate(uint16_t label) {
  const Lock lock(core_->mutex);
  label_ = label;
}

void QueuedStream::copy_async(void* destination, const void* source, size_t bytes, CopyKind kind) {
  check_range(destination, bytes, "copy_async");
  check_range(source, bytes, "copy_async");
  Instruction instruction(Opcode::kCopy);
  instruction.copy = {destination, source, bytes};
  Lock lock(core_->mutex);
  const void* host = kind == CopyKind::kHostToDevice ? source : kind == CopyKind::kDeviceToHost ? destination : nullptr;
  const bool pageable = host != nullptr && bytes > 0 && !core_->memory.map().is_pinned(host, bytes);
  if (pageable && (capture_ != nullptr || core_->forbids_unsafe_calls())) {
    throw Error(ErrorCode::kPageableMemory, "copy_async of pageable host memory during a capture")
        .remedy("allocate it with MemoryKind::kPinnedHost");
  }
  submit(lock, instruction);
  if (pageable) run_until_idle(lock, std::nullopt);
}

void QueuedStream::fill_async(void* destination, unsigned char value, size_t bytes) {
  check_range(destination, bytes, "fill_async");
  Instruction instruction(Opcode::kFill);
  instruction.fill = {destination, bytes, value};
  Lock lock(core_->mutex);
  submit(lock, instruction);
}

void QueuedStream::host_function(void (*function)(void* data), void* data) {
  if (function == nullptr) throw Error(ErrorCode::kInvalidArgument, "host_function with a null function");
  Instruction instruction(Opcode::kHostFunction);
  instruction.host = {function, data};
  Lock lock(core_->mutex);
  submit(lock, instruction);
}

void QueuedStream::queue_replay(const CpuCore& core, const std::shared_ptr<GraphProgram>& program) {
  if (core_.get() != &core) throw Error(ErrorCode::kInvalidArgument, "the stream belongs to another device");
  check_plain("replay");
  if (update_) fail_update(ErrorCode::kTaskGroupOperation, "replay inside a task update, which holds launches only");
  Instruction instruction(Opcode::kReplay);
  instruction.replay = {program.get()};
  InstructionList& list = append();
  list.keep(program);
  list.add(instruction);
  program->pending_replays.fetch_add(1, std::memory_order_relaxed);
  ++core_->counters.replays;
}

// Events.

void QueuedStream::record_external(Lock& lock, Opcode opcode, const std::shared_ptr<EventState>& event) {
  if (capture_ != nullptr) return capture_->add_external(opcode, lane_, event);
  Instruction instruction(opcode);
  instruction.event = {event.get(), 0};
  submit(lock, instruction);
  queue_.keep(event);
}

void QueuedStream::record(Event& event) {
  const std::shared_ptr<EventState>& state = CpuEvent::of(event, *core_).state();
  Lock lock(core_->mutex);
  check_open("record");
  if (state->kind == EventKind::kExternal) return record_external(lock, Opcode::kExternalRecord, state);
  if (capture_ != nullptr) return capture_->record(lane_, state);
  if (state->capture != nullptr && is_default_)
    throw Error(ErrorCode::kCaptureImplicit, "the default stream records an event of a live capture");
  Instruction instruction(Opcode::kRecord);
  instruction.event = {state.get(), state->recorded + 1};
  if (update_) return submit(lock, instruction);  // throws
  state->capture = nullptr;
  ++state->recorded;
  InstructionList& list = append();
  list.keep(state);
  list.add(instruction);
  bound_queue(lock);
}

void QueuedStream::wait(Event& event) {
  const std::shared_ptr<EventState>& state = CpuEvent::of(event, *core_).state();
  Lock lock(core_->mutex);
  check_open("wait");
  if (state->kind == EventKind::kExternal) return record_external(lock, Opcode::kExternalWait, state);
  if (capture_ != nullptr) return wait_in_capture(*state);
  Instruction instruction(Opcode::kWait);
  instruction.event = {state.get(), state->recorded};
  if (update_) return submit(lock, instruction);  // throws
  if (state->capture != nullptr) return wait_for_captured(*state);
  if (state->recorded == 0) return;  // nothing was ever recorded
  InstructionList& list = append();
  list.keep(state);
  list.add(instruction);
  bound_queue(lock);
}

void QueuedStream::wait_in_capture(const EventState& event) {
  capture_->check_valid();
  if (event.capture == capture_.get()) return capture_->wait(lane_, event);
  if (event.capture != nullptr) {
    capture_->invalidate();
    event.capture->invalidate();
    throw Error(ErrorCode::kCaptureConflict, "a stream of one capture waits for an event of another one");
  }
  if (event.recorded > 0) {
    throw Error(ErrorCode::kCaptureDependency,
                "a stream that captures waits for an event recorded outside of the capture")
        .remedy("record the event in the capture first, or use an external event");
  }
}

void QueuedStream::wait_for_captured(const EventState& event) {
  if (is_default_)
    throw Error(ErrorCode::kCaptureImplicit, "the default stream waits for an event of a live capture")
        .remedy("fork to a stream made by create_stream()");
  const std::shared_ptr<CaptureSession> session = event.capture->shared_from_this();
  lane_ = session->join(*this, event);
  capture_ = session;
}

// Settings.

uint16_t QueuedStream::thread_limit() const {
  const int matrix = core_limit_.matrix_cores;
  const int vector = core_limit_.vector_cores;
  return static_cast<uint16_t>(matrix == 0 || vector == 0 ? std::max(matrix, vector) : std::min(matrix, vector));
}

void QueuedStream::set_core_limit(CoreLimit limit) {
  const int cores = core_->team.size();
  for (const int value : {limit.matrix_cores, limit.vector_cores}) {
    if (value < 0 || value > cores)
      throw Error(ErrorCode::kInvalidArgument, "core limit {} is not between 0 and {}", value, cores);
  }
  const Lock lock(core_->mutex);
  check_open("set_core_limit");
  core_limit_ = limit;
}

CoreLimit QueuedStream::core_limit() const {
  const Lock lock(core_->mutex);
  return core_limit_;
}

}  // namespace reprise::device::cpu
