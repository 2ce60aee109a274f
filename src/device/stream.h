#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "device/capture.h"
#include "device/captured_graph.h"
#include "device/event.h"

namespace reprise::device {

class Device;

enum class CopyKind { kHostToDevice, kDeviceToHost, kDeviceToDevice };

/// The most cores that launches of a stream may use; 0 means all. Devices with one kind of core take the smaller of
/// the values given.
struct CoreLimit {
  int matrix_cores = 0;
  int vector_cores = 0;
  friend bool operator==(const CoreLimit&, const CoreLimit&) = default;
};

/// Memory that launches read, or write and perhaps read.
struct MemoryAccess {
  const void* address = nullptr;
  size_t bytes = 0;
  bool writes = false;
};

struct StreamOptions {
  int priority = 0;  ///< smaller is more urgent, see Capabilities
  std::string name;  ///< for dumps and messages
};

struct CaptureInfo {
  CaptureStatus status = CaptureStatus::kNone;
  /// The graph being captured, for streams that joined too; null when the status is kNone.
  const CapturedGraph* graph = nullptr;
};

/// An ordered queue of device work. Asynchronous in contract: a call may return before the work has run. Launches are
/// made by the device's kernels, which know the concrete stream.
class Stream {
 public:
  /// Waits for the work; a stream that captures is dropped from its capture, which is invalidated.
  virtual ~Stream() = default;
  virtual Device& device() = 0;
  virtual const StreamOptions& options() const = 0;

  /// Blocks until the queue is empty, and rethrows the error of failed work. kStreamCapturing during capture.
  virtual void synchronize() = 0;
  /// The same with a limit; false when it passed first.
  virtual bool synchronize_for(int timeout_ms) = 0;
  /// True when the queue is empty. kStreamCapturing during capture.
  virtual bool query() = 0;

  /// Says what memory the launches that follow use at most, up to the next call; nothing: that is not known. In a
  /// capture, launches that do not disturb each other may run at the same time then; a device may also ignore it.
  virtual void declare_accesses(std::span<const MemoryAccess> accesses) { static_cast<void>(accesses); }

  /// The launches that follow, up to the next call, carry a label that observers are told, also when they are replayed;
  /// 0: none. It changes nothing else, and is no part of a captured graph's text and hash.
  virtual void annotate(uint16_t label) { static_cast<void>(label); }

  /// Copies between device memory and device or pinned host memory. Pageable host memory: kPageableMemory on a stream
  /// that captures, and where a capture forbids it; otherwise the copy is done before the call returns.
  virtual void copy_async(void* destination, const void* source, size_t bytes, CopyKind kind) = 0;
  /// Sets each byte to `value`.
  virtual void fill_async(void* destination, unsigned char value, size_t bytes) = 0;
  /// Runs `function(data)` on the host in stream order; in a captured graph at each replay. It must not call the
  /// device.
  virtual void host_function(void (*function)(void* data), void* data) = 0;

  /// Ordinary event: marks the work so far. External: releases one wait.
  virtual void record(Event& event) = 0;
  /// Ordinary event: later work waits for the last record. External: waits for one record and consumes it.
  virtual void wait(Event& event) = 0;

  /// From here on calls on this stream are recorded instead of run. kStreamCapturing when it captures already,
  /// kCaptureImplicit on the default stream.
  virtual void begin_capture(CaptureMode mode) = 0;
  /// Ends the capture and yields the graph. Checks in this order: kStreamNotCapturing, kCaptureUnmatched (a joined
  /// stream), kCaptureWrongThread, kCaptureInvalidated, kTaskGroupState (open group), kCaptureUnjoined,
  /// kCaptureDependency. After a failure past the first two every participating stream is usable again.
  virtual std::unique_ptr<CapturedGraph> end_capture() = 0;
  virtual CaptureInfo capture_info() = 0;

  /// Marks the launches up to end_task_group() as re-issuable. kStreamNotCapturing outside capture; kTaskGroupState
  /// when begin and end do not pair up. Anything but a launch on this stream inside: kTaskGroupOperation, once by the
  /// call and once more by the end; the group is lost, the capture goes on.
  virtual void begin_task_group() = 0;
  virtual TaskGroup* end_task_group() = 0;
  /// Between these, launches on this (not capturing) stream replace the group's launches one by one; the exchange
  /// itself happens in stream order. Another number or kind of launches: kTaskUpdateMismatch, anything but a launch:
  /// kTaskGroupOperation, by the call and once more by the end, and the group stays as it was.
  virtual void begin_task_update(TaskGroup& group) = 0;
  virtual void end_task_update() = 0;

  /// Valid for later launches, and frozen into captured ones.
  virtual void set_core_limit(CoreLimit limit) = 0;
  virtual CoreLimit core_limit() const = 0;

  /// Waits for the work and ends the stream; errors are thrown here, which a destructor cannot do. kStreamCapturing
  /// during capture. Idempotent.
  virtual void close() = 0;
};

}  // namespace reprise::device
