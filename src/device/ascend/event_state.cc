#include "device/ascend/event_state.h"

#include <utility>

#include "base/error.h"

namespace reprise::device::ascend {
namespace {

/// What a wait of 32 bytes needs; the word itself has 8.
constexpr size_t kWordBytes = 32;

}  // namespace

EventState::EventState(std::shared_ptr<AscendCore> core, EventKind kind) : core_(std::move(core)), kind_(kind) {
  core_->enter();
  if (kind_ == EventKind::kOrdinary) {
    raw_ = std::make_shared<RawEvent>(core_->library, core_->make_event());
  } else if (core_->features.has(Feature::kValueWait)) {
    word_ = core_->allocate(kWordBytes, MemoryKind::kDevice);
    core_->zero_now(word_->data(), kWordBytes);
  } else {
    core_->require(Feature::kExternalEvent, "making an external event");
    aclrtEvent event = nullptr;
    core_->check(core_->library->aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL), "aclrtCreateEventWithFlag",
                 "making an external event");
    raw_ = std::make_shared<RawEvent>(core_->library, event);
  }
}

EventState::~EventState() {
  // Queued records and waits still refer to it.
  if (raw_ != nullptr) core_->retire(std::move(raw_));
}

std::shared_ptr<const RawEvent> EventState::raw() const {
  const std::lock_guard lock(core_->mutex);
  return raw_;
}

void EventState::prepare_record(const StreamProgress& stream) {
  if (recorded && recorder_ != &stream && !core_->query_event(raw_->get(), "recording an event")) {
    auto fresh = std::make_shared<RawEvent>(core_->library, core_->make_event());
    core_->retire_locked({}, std::exchange(raw_, std::move(fresh)));
  }
  recorder_ = &stream;
}

int EventState::record(aclrtStream stream, const char*& call) const {
  if (word_ != nullptr) {
    call = "aclrtValueWrite";
    return core_->library->aclrtValueWrite(word_->data(), 1, 0, stream);
  }
  call = "aclrtRecordEvent";
  return core_->library->aclrtRecordEvent(raw()->get(), stream);
}

int EventState::wait(aclrtStream stream, const char*& call) const {
  const AclLibrary& library = *core_->library;
  if (word_ != nullptr) {
    call = "aclrtValueWait";
    if (const int code = library.aclrtValueWait(word_->data(), 1, ACL_VALUE_WAIT_EQ, stream)) return code;
    call = "aclrtValueWrite";
    return library.aclrtValueWrite(word_->data(), 0, 0, stream);
  }
  call = "aclrtStreamWaitEvent";
  const std::shared_ptr<const RawEvent> event = raw();
  const int code = library.aclrtStreamWaitEvent(stream, event->get());
  if (code != ACL_SUCCESS || kind_ == EventKind::kOrdinary) return code;
  call = "aclrtResetEvent";
  return library.aclrtResetEvent(event->get(), stream);
}

AscendEvent& AscendEvent::of(Event& event, const AscendCore& core) {
  auto* own = dynamic_cast<AscendEvent*>(&event);
  if (own == nullptr || own->core_.get() != &core)
    throw Error(ErrorCode::kInvalidArgument, "the event belongs to another device");
  return *own;
}

bool AscendEvent::check_usable(const char* call) const {
  if (kind() == EventKind::kExternal)
    throw Error(ErrorCode::kUnsupported, "{} of an external event: it marks no point of a stream", call);
  const std::lock_guard lock(core_->mutex);
  if (state_->capture != nullptr)
    throw Error(ErrorCode::kEventCaptured, "{} of an event whose last record is in a live capture", call);
  return state_->recorded;
}

bool AscendEvent::query() {
  if (!check_usable("query")) return true;
  core_->enter();
  return core_->query_event(state_->raw()->get(), "asking for an event");
}

void AscendEvent::synchronize() {
  if (!check_usable("synchronize")) return;
  core_->enter();
  constexpr std::string_view kDoing = "waiting for an event";
  if (!core_->wait_event(state_->raw()->get(), core_->wait_limit_ms, kDoing)) core_->give_up(kDoing);
}

double AscendEvent::elapsed_ms(Event& start) {
  AscendEvent& first = of(start, *core_);
  const bool recorded = check_usable("elapsed_ms");
  const bool first_recorded = first.check_usable("elapsed_ms");
  core_->enter();
  constexpr std::string_view kDoing = "measuring the time between two events";
  const std::shared_ptr<const RawEvent> raw = state_->raw();
  const std::shared_ptr<const RawEvent> first_raw = first.state_->raw();
  if (!recorded || !first_recorded || !core_->query_event(raw->get(), kDoing) ||
      !core_->query_event(first_raw->get(), kDoing)) {
    throw Error(ErrorCode::kFailedPrecondition, "elapsed_ms of an event whose record has not been reached")
        .remedy("synchronize it first");
  }
  float milliseconds = 0;
  core_->check(core_->library->aclrtEventElapsedTime(&milliseconds, first_raw->get(), raw->get()),
               "aclrtEventElapsedTime", kDoing);
  return static_cast<double>(milliseconds);
}

}  // namespace reprise::device::ascend
