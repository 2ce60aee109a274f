#include "device/cpu/capture_session.h"

#include <algorithm>

#include "device/cpu/queued_stream.h"

namespace reprise::device::cpu {

CaptureSession::CaptureSession(std::shared_ptr<CpuCore> core, CaptureMode mode, QueuedStream& origin)
    : mode_(mode),
      thread_(std::this_thread::get_id()),
      graph_(std::make_unique<CpuCapturedGraph>(core, std::make_shared<GraphProgram>(core.get()))) {
  program().add_lane(origin.options().name, origin.options().priority);
  streams_.push_back(&origin);
  joins_.add_lane();
}

void CaptureSession::release_events() {
  for (const auto& event : events_) {
    if (event->capture == this) event->capture = nullptr;
  }
  events_.clear();
}

GraphProgram& CaptureSession::program() { return graph_->program_in_capture(); }

void CaptureSession::check_valid() const {
  if (invalidated_) throw Error(ErrorCode::kCaptureInvalidated, "the capture was invalidated by an earlier failure");
}

void CaptureSession::refuse_in_group(const char* operation) {
  if (!group_) return;
  const Error error(ErrorCode::kTaskGroupOperation, "{} inside a task group, which holds launches of one stream only",
                    operation);
  if (!group_->error) group_->error = error;
  throw error;
}

void CaptureSession::add(uint16_t lane, const Instruction& instruction) {
  check_valid();
  refuse_in_group(name_of(instruction.opcode).data());
  joins_.add_work(lane);
  program().add(instruction, lane);
}

void CaptureSession::add_launch(uint16_t lane, const Instruction& instruction, std::span<const std::byte> arguments,
                                std::span<const std::byte> tail, std::span<const MemoryAccess> accesses) {
  check_valid();
  if (group_ && group_->lane != lane) refuse_in_group("launch of another stream");
  joins_.add_work(lane);
  // An update may bring launches that use other memory.
  program().add_launch(instruction, lane, arguments, tail, group_ ? std::span<const MemoryAccess>() : accesses);
}

void CaptureSession::add_external(Opcode opcode, uint16_t lane, std::shared_ptr<EventState> event) {
  check_valid();
  refuse_in_group(name_of(opcode).data());
  joins_.add_work(lane);
  program().add_external(opcode, lane, std::move(event));
}

void CaptureSession::record(uint16_t lane, const std::shared_ptr<EventState>& event) {
  check_valid();
  refuse_in_group("record");
  Instruction instruction(Opcode::kRecordEdge);
  instruction.edge = {nullptr, program().add_edge()};
  program().add(instruction, lane);
  joins_.record(lane);
  // The newest record counts, also when an older one lies in another capture.
  event->capture = this;
  event->edge = instruction.edge.edge;
  if (std::find(events_.begin(), events_.end(), event) == events_.end()) events_.push_back(event);
}

void CaptureSession::wait(uint16_t lane, const EventState& event) {
  check_valid();
  refuse_in_group("wait");
  Instruction instruction(Opcode::kWaitEdge);
  instruction.edge = {nullptr, event.edge};
  program().add(instruction, lane);
  joins_.wait(lane, event.edge);
}

uint16_t CaptureSession::join(QueuedStream& stream, const EventState& event) {
  check_valid();
  refuse_in_group("wait of another stream");
  const uint16_t lane = program().add_lane(stream.options().name, stream.options().priority);
  streams_.push_back(&stream);
  joins_.add_lane();
  wait(lane, event);
  return lane;
}

void CaptureSession::begin_group(uint16_t lane) {
  check_valid();
  if (group_) throw Error(ErrorCode::kTaskGroupState, "a task group is already open in this capture");
  program().add(Instruction(Opcode::kBeginGroup), lane);
  group_ = {lane, static_cast<uint32_t>(program().instructions().size()), std::nullopt};
}

TaskGroup* CaptureSession::end_group(uint16_t lane) {
  check_valid();
  if (!group_ || group_->lane != lane) throw Error(ErrorCode::kTaskGroupState, "no task group is open on this stream");
  const OpenGroup group = *std::exchange(group_, std::nullopt);
  TaskGroup* made = group.error ? nullptr : program().add_group(group.first);
  program().add(Instruction(Opcode::kEndGroup), lane);
  if (group.error) throw *group.error;
  return made;
}

void CaptureSession::check_joined() const {
  const auto name_of = [this](uint16_t lane) {
    const QueuedStream* stream = streams_[lane];
    const bool named = stream != nullptr && !stream->options().name.empty();
    return named ? stream->options().name : "number " + std::to_string(lane);
  };
  if (const std::optional<Error> error = joins_.find_unjoined(name_of)) throw Error(*error);
}

std::unique_ptr<CpuCapturedGraph> CaptureSession::finish() {
  check_valid();
  if (group_) throw Error(ErrorCode::kTaskGroupState, "the capture ends inside a task group");
  check_joined();
  program().seal();
  graph_->mark_ready();
  return std::move(graph_);
}

}  // namespace reprise::device::cpu
