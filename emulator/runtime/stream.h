// A queue of tasks that run one after another, beside those of other streams.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <optional>

#include "emulator/runtime/device_owner.h"
#include "emulator/runtime/handle_table.h"
#include "emulator/runtime/task.h"
#include "emulator/runtime/validation/order.h"

namespace reprise::emulator {

class Capture;
class CapturedGraph;
class Context;
class InnerStream;
class TaskUpdate;

/// Guarded by Runtime::mutex(): all calls hold it.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kStream;

  Stream(std::shared_ptr<Context> owner, int32_t number, uint32_t flags, uint32_t priority);

  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const;
  bool is_default() const;
  bool capturing() const { return capture != nullptr; }

  /// Puts a task at the end. The thread that submits pays `host_seconds` of the timing model.
  void enqueue(TaskPointer task, double host_seconds);
  bool idle() const { return completed_ == submitted_; }
  uint64_t submitted() const { return submitted_; }
  /// Waits for all tasks that were submitted before the call. 507046 after `limit`; else what failed first since the
  /// last time that somebody asked.
  Status synchronize(Lock& lock, std::optional<std::chrono::milliseconds> limit);
  /// Drops what waits, ends waits and kernels that do not end, and waits until nothing runs. With `report` waits of
  /// the host answer 107023.
  void abort(Lock& lock, bool report);
  /// What failed since the last time that somebody asked.
  Status take_error();
  bool aborting() const { return aborting_ > 0; }
  double clock() const { return clock_; }
  /// What happened on it, for the validation layer; null while that is off.
  const OrderLine* line() const { return line_.get(); }

  void* handle = nullptr;
  const std::weak_ptr<Context> context;
  const int32_t id;
  const uint32_t flags;
  aclrtStreamAttrValue attributes[ACL_STREAM_ATTR_PRIORITY + 1] = {};
  uint32_t core_limits[2] = {0, 0};  // by aclrtDevResLimitType; 0: none
  uint64_t report_thread = 0;        // whose aclrtProcessReport runs this stream's callbacks; 0: none

  // While calls on the stream are recorded instead of run.
  std::shared_ptr<Capture> capture;
  InnerStream* inner = nullptr;          // of the capture, or of `bound`
  std::shared_ptr<CapturedGraph> bound;  // a graph built by hand
  // Between the beginning and the end of a task update.
  std::shared_ptr<TaskUpdate> update;

 private:
  struct Entry {
    TaskPointer task;
    double submitted_at = 0;
    OrderPointer order;
  };

  void drain();
  void finish(Lock& lock, const Task& task, Status status);

  Device& device_;
  const std::shared_ptr<Device> device_owner_ = owner_of(device_);
  std::deque<Entry> queue_;
  uint64_t submitted_ = 0;
  uint64_t completed_ = 0;
  bool draining_ = false;
  uint32_t aborting_ = 0;  // threads that abort it now
  std::condition_variable changed_;
  Status error_;
  double clock_ = 0;
  std::unique_ptr<OrderLine> line_;
};

}  // namespace reprise::emulator
