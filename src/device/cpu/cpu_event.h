#pragma once

#include <memory>

#include "device/cpu/cpu_core.h"
#include "device/cpu/event_state.h"
#include "device/event.h"

namespace reprise::device::cpu {

/// The handle of an event.
class CpuEvent : public Event {
 public:
  CpuEvent(std::shared_ptr<CpuCore> core, EventKind kind)
      : core_(std::move(core)), state_(std::make_shared<EventState>(kind)) {}

  EventKind kind() const override { return state_->kind; }
  bool query() override;
  void synchronize() override;
  double elapsed_ms(Event& start) override;

  const std::shared_ptr<EventState>& state() const { return state_; }
  /// The event as one of this device; kInvalidArgument for another device's.
  static CpuEvent& of(Event& event, const CpuCore& core);

 private:
  /// With the core's mutex locked.
  void check_usable(const char* call) const;
  bool is_done() const { return state_->is_reached(state_->recorded); }

  std::shared_ptr<CpuCore> core_;
  std::shared_ptr<EventState> state_;
};

}  // namespace reprise::device::cpu
