#include "device/ascend/capture_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/ascend/acl_stream.h"

namespace reprise::device::ascend {

CaptureSession::CaptureSession(std::shared_ptr<AscendCore> core, CaptureMode mode, AclStream& origin, aclmdlRI raw)
    : mode_(mode),
      thread_(std::this_thread::get_id()),
      state_(std::make_shared<GraphState>(std::move(core))),
      graph_(std::make_unique<AscendCapturedGraph>(state_)),
      streams_{&origin} {
  joins_.add_lane();
  state_->raw = raw;
  state_->record.add_lane(origin.options());
}

void CaptureSession::release_events() {
  for (const auto& event : state_->events) {
    if (event->capture == this) event->capture = nullptr;
  }
}

void CaptureSession::check_valid() const {
  if (invalidated_) throw Error(ErrorCode::kCaptureInvalidated, "the capture was invalidated by an earlier failure");
}

void CaptureSession::refuse_in_group(const char* operation) {
  if (!group_) return;
  const Error error(ErrorCode::kTaskGroupOperation, "{} inside a task group, which holds launches of one stream only",
                    operation);
  note_group_error(error);
  throw error;
}

void CaptureSession::check_launch(uint16_t lane) {
  check_valid();
  if (group_ && group_->lane != lane) refuse_in_group("launch of another stream");
}

void CaptureSession::note_group_error(const Error& error) {
  if (group_ && !group_->error) group_->error = error;
}

void CaptureSession::add(GraphRecord::Entry entry) {
  using Action = GraphRecord::Action;
  const bool moves_on = entry.action != Action::kRecord && entry.action != Action::kWait &&
                        entry.action != Action::kBeginGroup && entry.action != Action::kEndGroup;
  if (moves_on) joins_.add_work(entry.lane);
  const bool in_group = group_ && entry.action == GraphRecord::Action::kLaunch && entry.lane == group_->lane;
  const size_t index = state_->record.add(std::move(entry));
  if (in_group) group_->launches.push_back(index);
}

void CaptureSession::keep_event(const std::shared_ptr<EventState>& event) {
  auto& events = state_->events;
  if (std::find(events.begin(), events.end(), event) == events.end()) events.push_back(event);
}

void CaptureSession::record(uint16_t lane, const std::shared_ptr<EventState>& event) {
  add({.action = GraphRecord::Action::kRecord, .lane = lane, .digest = joins_.next_record()});
  // The newest record counts, also when an older one lies in another capture.
  event->capture = this;
  event->edge = joins_.record(lane);
  keep_event(event);
}

void CaptureSession::wait(uint16_t lane, const EventState& event) {
  add({.action = GraphRecord::Action::kWait, .lane = lane, .digest = event.edge});
  joins_.wait(lane, event.edge);
}

std::optional<Error> CaptureSession::find_unjoined() const {
  return joins_.find_unjoined([this](uint16_t lane) { return fmt::format("'{}'", state_->record.lane_name(lane)); });
}

void CaptureSession::external(GraphRecord::Action action, uint16_t lane, const std::shared_ptr<EventState>& event) {
  auto place = std::find(externals_.begin(), externals_.end(), event.get());
  if (place == externals_.end()) place = externals_.insert(externals_.end(), event.get());
  ++(action == GraphRecord::Action::kExternalWait ? state_->external_waits : state_->external_records);
  add({.action = action, .lane = lane, .digest = static_cast<uint64_t>(place - externals_.begin())});
  keep_event(event);
}

uint16_t CaptureSession::join(AclStream& stream, const EventState& event) {
  const uint16_t lane = state_->record.add_lane(stream.options());
  streams_.push_back(&stream);
  joins_.add_lane();
  wait(lane, event);
  return lane;
}

void CaptureSession::check_begin_group() const {
  check_valid();
  if (group_) throw Error(ErrorCode::kTaskGroupState, "a task group is already open in this capture");
}

void CaptureSession::begin_group(uint16_t lane) {
  add({.action = GraphRecord::Action::kBeginGroup, .lane = lane});
  group_ = OpenGroup{lane, {}, std::nullopt};
}

void CaptureSession::check_end_group(uint16_t lane) const {
  check_valid();
  if (!group_ || group_->lane != lane) throw Error(ErrorCode::kTaskGroupState, "no task group is open on this stream");
}

TaskGroup* CaptureSession::end_group(uint16_t lane, aclrtTaskGrp handle) {
  OpenGroup group = *std::exchange(group_, std::nullopt);
  add({.action = GraphRecord::Action::kEndGroup, .lane = lane});
  if (group.error) throw *group.error;
  state_->record.count_group();
  state_->groups.push_back(std::make_unique<AscendTaskGroup>(*state_, handle, std::move(group.launches)));
  return state_->groups.back().get();
}

}  // namespace reprise::device::ascend
