#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "device/device.h"

namespace reprise::device {

/// A piece of device work that ran. Times are nanoseconds of the steady clock.
struct WorkRecord {
  const char* name = nullptr;  ///< of the kernel, or "copy", "fill", "host_function"; static
  uint16_t label = 0;          ///< see Stream::annotate()
  uint16_t lane = 0;           ///< of captured graphs: which of their streams
  int64_t begin = 0;
  int64_t end = 0;
};

/// Memory that the device gave out or took back.
struct MemoryRecord {
  enum class Kind { kAllocate, kFree, kCommit } kind = Kind::kAllocate;
  const void* address = nullptr;
  size_t bytes = 0;
  size_t total = 0;  ///< allocated through the device, with this
};

/// Watches a device, for profiles. Set by Device::set_observer(); without one nothing is measured or called. Members
/// may be called by any thread, also two at a time, with locks of the device held: they must not call the device.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_work(const WorkRecord& record) = 0;
  virtual void on_memory(const MemoryRecord& record) = 0;
  /// Work of the host begins and ends: pairs nest on each thread. `label` as for launches.
  virtual void begin_span(std::string_view name, uint16_t label) = 0;
  virtual void end_span() = 0;
};

/// One piece of the host's work, told to the device's observer if there is one.
class HostSpan {
 public:
  HostSpan(const Device& device, std::string_view name, uint16_t label = 0) : observer_(device.observer()) {
    if (observer_ != nullptr) [[unlikely]]
      observer_->begin_span(name, label);
  }
  ~HostSpan() {
    if (observer_ != nullptr) [[unlikely]]
      observer_->end_span();
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

 private:
  Observer* observer_;
};

}  // namespace reprise::device
