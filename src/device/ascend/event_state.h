#pragma once

#include <cstdint>
#include <memory>

#include "device/ascend/ascend_core.h"
#include "device/event.h"

namespace reprise::device::ascend {

class CaptureSession;

/// An event of the runtime; destroyed when the last of the work that may use it has run.
class RawEvent {
 public:
  RawEvent(std::shared_ptr<const AclLibrary> library, aclrtEvent event) : library_(std::move(library)), event_(event) {}
  ~RawEvent() { log_acl(*library_, library_->aclrtDestroyEvent(event_), "aclrtDestroyEvent", "ending an event"); }
  RawEvent(const RawEvent&) = delete;
  RawEvent& operator=(const RawEvent&) = delete;
  aclrtEvent get() const { return event_; }

 private:
  std::shared_ptr<const AclLibrary> library_;
  aclrtEvent event_;
};

/// What an event is apart from its handle; graphs that refer to it keep it alive.
///
/// An ordinary event is one of the runtime that takes part in captures. An external one is a binary semaphore: a word
/// of device memory that a record sets to 1 and a wait, which waits for 1, sets back to 0; where streams cannot wait
/// for words, an event of the runtime of the kind "external", which a wait resets.
class EventState {
 public:
  EventState(std::shared_ptr<AscendCore> core, EventKind kind);
  ~EventState();
  EventState(const EventState&) = delete;
  EventState& operator=(const EventState&) = delete;

  EventKind kind() const { return kind_; }
  const AscendCore& core() const { return *core_; }
  /// The runtime's event as it is now; null for a word of memory. Locks the core's mutex.
  std::shared_ptr<const RawEvent> raw() const;

  /// Before a record of an ordinary event outside of captures, with the mutex locked. A wait is for the record before
  /// it: where an older record, of another stream, is still to come, the new one gets another event of the runtime,
  /// whose events know only how many of their records were reached.
  void prepare_record(const StreamProgress& stream);

  /// Queue one record, or one wait, on a stream; for both kinds. AscendCL's code, and the call that gave it.
  int record(aclrtStream stream, const char*& call) const;
  int wait(aclrtStream stream, const char*& call) const;

  // Of ordinary events; guarded by the core's mutex.
  bool recorded = false;              ///< outside of captures, at least once
  CaptureSession* capture = nullptr;  ///< the live one in which the last record lies
  uint32_t edge = 0;                  ///< the number of that record there

 private:
  std::shared_ptr<AscendCore> core_;
  const EventKind kind_;
  std::shared_ptr<const RawEvent> raw_;       ///< guarded by the core's mutex
  const StreamProgress* recorder_ = nullptr;  ///< the stream of the last record outside of captures
  std::shared_ptr<Storage> word_;
};

/// The handle of an event.
class AscendEvent : public Event {
 public:
  AscendEvent(const std::shared_ptr<AscendCore>& core, EventKind kind)
      : core_(core), state_(std::make_shared<EventState>(core, kind)) {}

  EventKind kind() const override { return state_->kind(); }
  bool query() override;
  void synchronize() override;
  double elapsed_ms(Event& start) override;

  const std::shared_ptr<EventState>& state() const { return state_; }
  /// The event as one of this device; kInvalidArgument for another device's.
  static AscendEvent& of(Event& event, const AscendCore& core);

 private:
  /// Locks the mutex. False when nothing was ever recorded.
  bool check_usable(const char* call) const;

  std::shared_ptr<AscendCore> core_;
  std::shared_ptr<EventState> state_;
};

}  // namespace reprise::device::ascend
