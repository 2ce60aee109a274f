#include "device/cpu/cpu_event.h"

#include <initializer_list>

#include "base/error.h"

namespace reprise::device::cpu {

CpuEvent& CpuEvent::of(Event& event, const CpuCore& core) {
  auto* own = dynamic_cast<CpuEvent*>(&event);
  if (own == nullptr || own->core_.get() != &core)
    throw Error(ErrorCode::kInvalidArgument, "the event belongs to another device");
  return *own;
}

void CpuEvent::check_usable(const char* call) const {
  if (kind() == EventKind::kExternal)
    throw Error(ErrorCode::kUnsupported, "{} of an external event: it marks no point of a stream", call);
  if (state_->capture != nullptr)
    throw Error(ErrorCode::kEventCaptured, "{} of an event whose last record is in a live capture", call);
}

bool CpuEvent::query() {
  std::unique_lock lock(core_->mutex);
  check_usable("query");
  return core_->executor.run_ready(lock, nullptr, [this] { return is_done(); });
}

void CpuEvent::synchronize() {
  std::unique_lock lock(core_->mutex);
  check_usable("synchronize");
  const uint64_t ticket = state_->recorded;
  core_->executor.run_until(lock, nullptr, [&] { return state_->is_reached(ticket); });
}

double CpuEvent::elapsed_ms(Event& start) {
  CpuEvent& first = of(start, *core_);
  const std::unique_lock lock(core_->mutex);
  check_usable("elapsed_ms");
  first.check_usable("elapsed_ms");
  for (const CpuEvent* event : std::initializer_list<const CpuEvent*>{&first, this}) {
    if (event->state_->recorded == 0 || !event->is_done())
      throw Error(ErrorCode::kFailedPrecondition, "elapsed_ms of an event whose record has not been reached")
          .remedy("synchronize it first");
  }
  const int64_t nanoseconds = state_->time_ns() - first.state_->time_ns();
  return static_cast<double>(nanoseconds) * 1e-6;
}

}  // namespace reprise::device::cpu
