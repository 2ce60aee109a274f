#include "device/cpu/stream_queue.h"

#include "device/cpu/event_state.h"
#include "device/cpu/graph_program.h"

namespace reprise::device::cpu {

const Instruction* StreamQueue::front() {
  if (position_ == running_.size()) {
    if (filling_.empty()) return nullptr;
    std::swap(running_, filling_);
    position_ = 0;
    running_pending_ = running_.size();
    running_since_ = filling_since_;
  }
  return &running_[position_];
}

void StreamQueue::advance(size_t count) {
  position_ += count;
  advanced_ += count;
  if (position_ == running_.size()) {
    running_.clear();
    position_ = 0;
  }
}

void StreamQueue::settle() {
  pending_ -= advanced_;
  running_pending_ -= advanced_;
  advanced_ = 0;
  if (error_ == nullptr) error_ = std::exchange(run_error_, nullptr);
  run_error_ = nullptr;
}

void StreamQueue::drop() {
  for (InstructionList* list : {&running_, &filling_}) {
    for (size_t i = list == &running_ ? position_ : 0; i < list->size(); ++i) {
      const Instruction& lost = (*list)[i];
      if (lost.opcode == Opcode::kReplay) lost.replay.program->abandon(this);
      // Others must not wait for ever for what will not come.
      if (lost.opcode == Opcode::kRecord) lost.event.event->reach(lost.event.ticket);
    }
  }
  running_.clear();
  filling_.clear();
  position_ = 0;
  pending_ = 0;
  running_pending_ = 0;
}

}  // namespace reprise::device::cpu
