// What recording, awaiting and resetting an event mean on each kind of stream, with the checks of captures.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "emulator/runtime/event.h"
#include "emulator/runtime/status.h"

namespace reprise::emulator {

class Stream;

// All with Runtime::mutex() held.
Status record_event(Stream& stream, const std::shared_ptr<Event>& event);
Status wait_event(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event,
                  std::optional<std::chrono::seconds> limit);
Status reset_event(Stream& stream, const std::shared_ptr<Event>& event);
/// ACL_EVENT_RECORD_EXTERNAL and ACL_EVENT_WAIT_EXTERNAL.
Status record_external(Stream& stream, const std::shared_ptr<Event>& event);
Status wait_external(Stream& stream, const std::shared_ptr<Event>& event, uint32_t timeout);

/// 107028 for an event whose newest record is inside a live capture; 207000 for an external one.
Status refuse_host_use(const Event& event);
/// 107000 for null or what is no event.
Status find_event(aclrtEvent handle, std::shared_ptr<Event>& event);

}  // namespace reprise::emulator
