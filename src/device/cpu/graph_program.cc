#include "device/cpu/graph_program.h"

#include <algorithm>
#include <cstring>

namespace reprise::device::cpu {

uint16_t GraphProgram::add_lane(std::string name, int priority) {
  lanes_.push_back({std::move(name), priority});
  return static_cast<uint16_t>(lanes_.size() - 1);
}

void GraphProgram::add(Instruction instruction, uint16_t lane) {
  instruction.lane = lane;
  list_.add(instruction);
}

void GraphProgram::add_launch(Instruction instruction, uint16_t lane, std::span<const std::byte> arguments,
                              std::span<const std::byte> tail, std::span<const MemoryAccess> accesses) {
  instruction.lane = lane;
  list_.add_launch(instruction, arguments, tail);
  if (!accesses.empty()) accesses_.add(list_.size() - 1, accesses);
}

void GraphProgram::add_external(Opcode opcode, uint16_t lane, std::shared_ptr<EventState> event) {
  Instruction instruction(opcode);
  instruction.event = {event.get(), 0};
  list_.keep(std::move(event));
  add(instruction, lane);
}

CpuTaskGroup* GraphProgram::add_group(uint32_t first) {
  groups_.push_back(std::make_unique<CpuTaskGroup>(*this, first, static_cast<uint32_t>(list_.size())));
  return groups_.back().get();
}

void GraphProgram::seal() {
  for (const auto& group : groups_) {
    for (uint32_t i = group->first(); i < group->last(); ++i) {
      group->group_launches().push_back({&list_[i], 0, nullptr});
      group->kinds.push_back(kernel_kind(*list_[i].launch.kernel));
    }
  }
  lay_out_arguments();
  plan_segments();
  // Where lanes wait for something outside, what runs between two instructions of one is not known here.
  if (plans_.size() == 1) accesses_.mark_independent(list_.instructions());
  accesses_ = LaunchAccesses();
  sealed_ = true;
}

void GraphProgram::lay_out_arguments() {
  // Room by instruction: launches of groups get more than they need now.
  std::vector<size_t> room(list_.size(), 0);
  for (size_t i = 0; i < list_.size(); ++i) {
    if (list_[i].opcode != Opcode::kLaunch) continue;
    const size_t bytes = block_bytes(list_[i].argument_bytes, list_[i].tail_bytes);
    room[i] = (bytes + kArgumentAlignment - 1) / kArgumentAlignment * kArgumentAlignment;
  }
  for (const auto& group : groups_) {
    for (uint32_t i = group->first(); i < group->last(); ++i) {
      room[i] = group_launch_capacity(block_bytes(list_[i].argument_bytes, list_[i].tail_bytes));
      group->group_launches()[i - group->first()].capacity = room[i];
    }
  }
  for (const size_t bytes : room) argument_bytes_ += bytes;
  arguments_ = std::make_unique<std::byte[]>(argument_bytes_);
  std::byte* place = arguments_.get();
  for (size_t i = 0; i < list_.size(); ++i) {
    if (list_[i].opcode != Opcode::kLaunch) continue;
    const size_t bytes = block_bytes(list_[i].argument_bytes, list_[i].tail_bytes);
    if (bytes > 0) std::memcpy(place, list_[i].launch.arguments, bytes);
    list_[i].launch.arguments = place;
    place += room[i];
  }
  list_.release_arguments();
}

void GraphProgram::plan_segments() {
  const std::span<Instruction> all = list_.instructions();
  const bool waits_outside =
      std::any_of(all.begin(), all.end(), [](const Instruction& i) { return i.opcode == Opcode::kExternalWait; });
  plans_.resize(waits_outside ? lanes_.size() : 1);
  if (!waits_outside) {
    if (!all.empty()) plans_[0].segments.push_back({0, static_cast<uint32_t>(all.size())});
    return;
  }
  edges_done_.assign(edges_, 0);
  for (uint32_t i = 0; i < all.size(); ++i) {
    Instruction& instruction = all[i];
    const bool is_wait = instruction.opcode == Opcode::kExternalWait || instruction.opcode == Opcode::kWaitEdge;
    if (instruction.opcode == Opcode::kRecordEdge || instruction.opcode == Opcode::kWaitEdge)
      instruction.edge.done = &edges_done_[instruction.edge.edge];
    std::vector<Segment>& segments = plans_[instruction.lane].segments;
    if (is_wait || segments.empty() || segments.back().last != i) {
      segments.push_back({i, i + 1});
    } else {
      segments.back().last = i + 1;
    }
  }
  // The most urgent lane is asked first; lanes of one priority in the order in which they joined.
  std::vector<size_t> order(lanes_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lanes_[a].priority < lanes_[b].priority; });
  std::vector<LanePlan> sorted;
  for (const size_t lane : order) sorted.push_back(std::move(plans_[lane]));
  plans_ = std::move(sorted);
}

bool GraphProgram::is_ready(const Segment& segment) const {
  const Instruction& gate = list_[segment.first];
  if (gate.opcode == Opcode::kExternalWait) return gate.event.event->signalled;
  if (gate.opcode == Opcode::kWaitEdge && gate.edge.done != nullptr) return *gate.edge.done != 0;
  return true;
}

bool GraphProgram::can_advance(const void* replayer) const {
  if (replayer_ == nullptr) return true;  // starting it is progress, even when every lane begins with a wait
  if (replayer_ != replayer) return false;
  return std::any_of(plans_.begin(), plans_.end(), [&](const LanePlan& plan) {
    return plan.next < plan.segments.size() && is_ready(plan.segments[plan.next]);
  });
}

void GraphProgram::start(const void* replayer) {
  replayer_ = replayer;
  for (LanePlan& plan : plans_) plan.next = 0;
  std::fill(edges_done_.begin(), edges_done_.end(), uint8_t{0});
}

void GraphProgram::run_segment(const Segment& segment, SegmentRunner& runner, std::exception_ptr& error) {
  const Instruction& gate = list_[segment.first];
  if (gate.opcode == Opcode::kExternalWait) gate.event.event->signalled = false;  // consumes the record
  runner.run(list_.instructions().subspan(segment.first, segment.last - segment.first), options_, error);
}

bool GraphProgram::advance(const void* replayer, SegmentRunner& runner, std::exception_ptr& error) {
  if (replayer_ == nullptr) {
    start(replayer);
    // One that waits for others takes a time that says nothing.
    options_ = choice_.begin(runner.threads(), plans_.size() == 1);
  }
  const auto ready = [this](const LanePlan& plan) {
    return plan.next < plan.segments.size() && is_ready(plan.segments[plan.next]);
  };
  // After each segment the most urgent lane is asked again: the segment may have released it.
  for (auto plan = std::find_if(plans_.begin(), plans_.end(), ready); plan != plans_.end();
       plan = std::find_if(plans_.begin(), plans_.end(), ready)) {
    run_segment(plan->segments[plan->next++], runner, error);
  }
  const bool ended =
      std::all_of(plans_.begin(), plans_.end(), [](const LanePlan& plan) { return plan.next == plan.segments.size(); });
  if (ended) {
    replayer_ = nullptr;
    choice_.end();
  }
  return ended;
}

void GraphProgram::abandon(const void* replayer) {
  if (replayer_ == replayer) replayer_ = nullptr;
  pending_replays.fetch_sub(1, std::memory_order_release);
}

GraphStatistics GraphProgram::statistics() const {
  GraphStatistics statistics;
  for (const Instruction& instruction : list_.instructions()) {
    switch (instruction.opcode) {
      case Opcode::kLaunch:
        ++statistics.launches;
        break;
      case Opcode::kCopy:
        ++statistics.copies;
        break;
      case Opcode::kFill:
        ++statistics.fills;
        break;
      case Opcode::kHostFunction:
        ++statistics.host_functions;
        break;
      case Opcode::kRecordEdge:
      case Opcode::kExternalRecord:
        ++statistics.records;
        break;
      case Opcode::kWaitEdge:
      case Opcode::kExternalWait:
        ++statistics.waits;
        break;
      default:
        break;
    }
  }
  statistics.task_groups = static_cast<int64_t>(groups_.size());
  statistics.streams = static_cast<int64_t>(lanes_.size());
  statistics.bytes = static_cast<int64_t>(list_.size() * sizeof(Instruction) + argument_bytes_);
  return statistics;
}

}  // namespace reprise::device::cpu
