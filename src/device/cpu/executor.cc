#include "device/cpu/executor.h"

#include <algorithm>

#include "device/cpu/event_state.h"
#include "device/cpu/graph_program.h"

namespace reprise::device::cpu {
namespace {

/// Whether an instruction never waits, so that it can be in the middle of a segment. Waiting for an ordinary record
/// that has happened is no waiting; an external wait consumes a record and therefore has its own turn.
bool runs_through(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kReplay:
    case Opcode::kExternalWait:
      return false;
    case Opcode::kWait:
      return instruction.event.event->is_reached(instruction.event.ticket);
    default:
      return true;
  }
}

size_t segment_length(std::span<const Instruction> instructions) {
  size_t length = 0;
  while (length < instructions.size() && runs_through(instructions[length])) ++length;
  return length;
}

}  // namespace

void Executor::add(StreamQueue& queue) {
  const auto later = std::find_if(queues_.begin(), queues_.end(),
                                  [&](const StreamQueue* other) { return other->priority() > queue.priority(); });
  queues_.insert(later, &queue);
}

void Executor::remove(StreamQueue& queue) { std::erase(queues_, &queue); }

uint64_t Executor::next_sequence() {
  if (sleepers_ > 0) changed_.notify_all();
  return ++sequence_;
}

uint64_t Executor::done_sequence() const {
  uint64_t oldest = sequence_ + 1;
  for (const StreamQueue* queue : queues_) {
    if (!queue->empty()) oldest = std::min(oldest, queue->oldest_sequence());
  }
  return oldest - 1;
}

std::exception_ptr Executor::take_error() {
  std::exception_ptr first;
  for (StreamQueue* queue : queues_) {
    std::exception_ptr error = queue->take_error();
    if (first == nullptr) first = error;
  }
  return first;
}

bool Executor::can_run(const StreamQueue& queue, const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kReplay:
      return instruction.replay.program->can_advance(&queue);
    case Opcode::kExternalWait:
      return instruction.event.event->signalled;
    default:
      return runs_through(instruction);
  }
}

StreamQueue* Executor::pick(const StreamQueue* target) {
  StreamQueue* best = nullptr;
  for (StreamQueue* queue : queues_) {
    if (best != nullptr && (queue->priority() > best->priority() || queue != target)) continue;
    const Instruction* front = queue->front();
    if (front != nullptr && can_run(*queue, *front)) best = queue;
  }
  return best;
}

bool Executor::step(Lock& lock, const StreamQueue* target) {
  if (executing_) return false;
  StreamQueue* queue = pick(target);
  if (queue == nullptr) return false;
  executing_ = true;
  runner_.set_observer(observer_);
  memory_.open();
  lock.unlock();
  execute(*queue);
  lock.lock();
  memory_.close();
  executing_ = false;
  queue->settle();
  if (sleepers_ > 0) changed_.notify_all();
  return true;
}

void Executor::execute(StreamQueue& queue) {
  const std::span<const Instruction> rest = queue.rest();
  const Instruction& front = rest.front();
  if (front.opcode == Opcode::kReplay) {
    GraphProgram& program = *front.replay.program;
    if (!program.advance(&queue, runner_, queue.error_of_run())) return;
    program.pending_replays.fetch_sub(1, std::memory_order_release);
    queue.advance(1);  // may let go of the program
  } else if (front.opcode == Opcode::kExternalWait) {
    front.event.event->signalled = false;  // consumes the record
    queue.advance(1);
  } else {
    const size_t length = segment_length(rest);
    runner_.run(rest.first(length), queue.error_of_run());
    queue.advance(length);
  }
}

bool Executor::sleep(Lock& lock, Deadline deadline) {
  ++sleepers_;
  bool in_time = true;
  if (deadline) {
    in_time = changed_.wait_until(lock, *deadline) == std::cv_status::no_timeout;
  } else {
    changed_.wait(lock);
  }
  --sleepers_;
  return in_time;
}

void Executor::wait_until_paused(Lock& lock) {
  while (executing_) sleep(lock, std::nullopt);
}

void Executor::set_observer(Lock& lock, Observer* observer) {
  wait_until_paused(lock);
  observer_ = observer;
}

}  // namespace reprise::device::cpu
