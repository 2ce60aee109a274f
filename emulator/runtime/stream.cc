#include "emulator/runtime/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/runtime/context.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/message_ring.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/thread_state.h"
#include "emulator/runtime/validation/validation.h"

namespace reprise::emulator {

Stream::Stream(std::shared_ptr<Context> owner, int32_t number, uint32_t stream_flags, uint32_t priority)
    : context(owner), id(number), flags(stream_flags), device_(owner->device) {
  attributes[ACL_STREAM_ATTR_PRIORITY].streamPriority = priority;
}

Stream::~Stream() { Validation::instance().end_line(std::move(line_)); }

Device& Stream::device() const { return device_; }

bool Stream::is_default() const {
  const std::shared_ptr<Context> owner = context.lock();
  return owner && owner->default_stream.get() == this;
}

void Stream::enqueue(TaskPointer task, double host_seconds) {
  double& host_clock = ThreadState::current().clock;
  host_clock += host_seconds;
  Validation& validation = Validation::instance();
  validation.submitted(*task);
  validation.copy_submitted(*task);
  if (Validation::on() && !line_) line_ = validation.start_line();
  queue_.push_back({std::move(task), host_clock, validation.host_order()});
  ++submitted_;
  if (draining_) return;
  draining_ = true;
  Runtime::instance().threads().start([self = shared_from_this()] { self->drain(); });
}

void Stream::drain() {
  Lock lock(Runtime::instance().mutex());
  while (!queue_.empty() && !aborting()) {
    // Kept in the queue's account (not completed) while it runs.
    const Entry entry = std::move(queue_.front());
    queue_.pop_front();
    Status status = device_.error();
    if (status.ok()) {
      TaskContext turn{.device = device_, .stream = *this, .clock = std::max(clock_, entry.submitted_at)};
      turn.line = line_.get();
      Validation::instance().acquire(turn.line, entry.order);
      lock.unlock();
      status = execute(*entry.task, turn);
      lock.lock();
      clock_ = turn.clock;
    }
    finish(lock, *entry.task, std::move(status));
  }
  draining_ = false;
  changed_.notify_all();
}

void Stream::finish(Lock& /*lock*/, const Task& task, Status status) {
  ++completed_;
  changed_.notify_all();
  if (status.ok()) return;
  if (error_.ok()) {
    error_ = Status(status.code, fmt::format("stream {}: {}: {}", id, name_of(task.kind()), status.text));
  }
  if (attributes[ACL_STREAM_ATTR_FAILURE_MODE].failureMode == ACL_STOP_ON_FAILURE) {
    completed_ += queue_.size();
    queue_.clear();
  }
}

Status Stream::synchronize(Lock& lock, std::optional<std::chrono::milliseconds> limit) {
  if (!limit && ThreadState::current().host_function_of == this) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("a host function of stream {} would wait for itself", id));
  }
  const uint64_t target = submitted_;
  const auto done = [&] { return completed_ >= target; };
  if (!limit) {
    changed_.wait(lock, done);
  } else if (!changed_.wait_for(lock, *limit, done)) {
    return Status(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, fmt::format("stream {} did not end within {} ms; {} tasks are left",
                                                                id, limit->count(), submitted_ - completed_));
  }
  double& host_clock = ThreadState::current().clock;
  host_clock = std::max(host_clock, clock_);
  Validation::instance().host_saw(line());
  return take_error();
}

Status Stream::take_error() {
  if (!device_.error().ok()) return device_.error();
  return std::exchange(error_, Status());
}

void Stream::abort(Lock& lock, bool report) {
  ++aborting_;
  const bool busy = !idle();
  Runtime::instance().progress().notify_all();
  changed_.wait(lock, [&] { return !draining_; });
  completed_ += queue_.size();
  queue_.clear();
  --aborting_;
  error_ = report && busy ? Status(ACL_ERROR_RT_STREAM_ABORT, fmt::format("stream {} was aborted", id)) : Status();
  changed_.notify_all();
}

}  // namespace reprise::emulator
