#pragma once

namespace reprise::device {

/// What an event may be used for.
enum class EventKind {
  kOrdinary,  ///< order between streams; recorded and waited in a capture it forks and joins streams
  kExternal,  ///< a binary semaphore between a captured graph and the outside: wait consumes one record
};

/// A point in the work of a stream. Made by Device::create_event; any thread may use it.
class Event {
 public:
  virtual ~Event() = default;
  virtual EventKind kind() const = 0;
  /// True when the work before the last record is done (or nothing was recorded). kEventCaptured during a capture that
  /// holds the event; kUnsupported for external events.
  virtual bool query() = 0;
  /// Blocks until query() would be true; the same errors.
  virtual void synchronize() = 0;
  /// Milliseconds from the last record of `start` to the last record of this event; both must be done.
  virtual double elapsed_ms(Event& start) = 0;
};

}  // namespace reprise::device
