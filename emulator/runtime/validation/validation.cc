#include "emulator/runtime/validation/validation.h"

#include <fmt/format.h>

#include <utility>

#include "emulator/runtime/captured_graph.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/task_group.h"

namespace reprise::emulator {

Validation& Validation::instance() {
  // Workers may still ask while the process ends.
  static auto* validation = new Validation;
  return *validation;
}

Status Validation::open_environment() {
  const std::lock_guard lock(mutex_);
  Status status = reporter_.open_environment();
  on_ = reporter_.on();
  CallSite::keep_backtraces(on_);
  objects_.clear();
  memory_.clear();
  updates_.clear();
  replays_.clear();
  signals_.clear();
  host_.clear();
  graphs_.clear();
  host_snapshot_.reset();
  if (on_ && !host_line_) host_line_ = lines_.make({});
  return status;
}

Status Validation::finish() {
  if (!on()) return {};
  const std::lock_guard lock(mutex_);
  objects_.report_leaks(-1);
  reporter_.write_summary();
  reporter_.close();
  on_ = false;
  CallSite::keep_backtraces(false);
  return reporter_.status();
}

// --- Objects ---

void Validation::created(ObjectKind kind, const void* handle, int32_t device) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  objects_.created(kind, handle, device);
}

void Validation::destroyed(const void* handle) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  objects_.destroyed(handle);
  signals_.event_forgotten(handle);
}

void Validation::destroy_refused(ObjectKind kind, const void* handle) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  objects_.destroy_refused(kind, handle);
}

void Validation::use_refused(ObjectKind kind, const void* handle) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  objects_.use_refused(kind, handle);
}

void Validation::device_reset(int32_t device) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  objects_.report_leaks(device);
}

// --- Memory ---

void Validation::memory_allocated(const void* address, uint64_t bytes, int32_t device) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  objects_.created(ObjectKind::kDeviceMemory, address, device, bytes);
  memory_.allocated(address, bytes);
}

const GraphNode* Validation::find_user(const CapturedGraph& graph, uint64_t allocation) const {
  for (const std::unique_ptr<InnerStream>& line : graph.streams) {
    for (const std::shared_ptr<GraphNode>& node : line->nodes) {
      if (!node->task->notes) continue;
      for (const MemoryUse& use : node->task->notes->memory) {
        if (use.allocation == allocation) return node.get();
      }
    }
  }
  return nullptr;
}

void Validation::memory_freed(const void* address) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  forget_memory(address);
}

void Validation::forget_memory(const void* address) {
  objects_.destroyed(address);
  const uint64_t allocation = memory_.freed(address);
  const MemoryLedger::Allocation* freed = memory_.get(allocation);
  if (!freed) return;
  signals_.words_forgotten(freed->address, freed->bytes, true);
  for (const auto& [key, weak] : graphs_) {
    const std::shared_ptr<CapturedGraph> graph = weak.lock();
    if (!graph) continue;
    const GraphNode* user = find_user(*graph, allocation);
    if (!user) continue;
    reporter_.report(Misuse::kFreedBeforeGraph,
                     fmt::format("{} bytes at {} are freed while graph {} lives, whose task {} ({}) uses them",
                                 freed->bytes, freed->address, graph->id, user->sequence, user->task->describe()),
                     {{"freed", freed->freed}, {"captured", user->task->notes->site}, {"allocated", freed->allocated}});
  }
}

void Validation::host_allocated(const void* address, uint64_t bytes) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  // Pinned memory is of the host; it belongs to no device.
  objects_.created(ObjectKind::kHostMemory, address, -1, bytes);
  memory_.allocated(address, bytes);
}

void Validation::host_freed(const void* address) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  const uint64_t bytes = objects_.bytes_of(address);
  if (bytes == 0) {
    objects_.destroy_refused(ObjectKind::kHostMemory, address);
    return;
  }
  host_.freed(address, bytes);
  forget_memory(address);
}

// --- Tasks and graphs ---

void Validation::find_allocations(std::vector<MemoryUse>& uses) const {
  for (MemoryUse& use : uses) use.allocation = memory_.find(use.address);
  // What a kernel's arguments are guessed to be may be no address at all.
  std::erase_if(uses, [](const MemoryUse& use) { return use.allocation == 0; });
}

void Validation::submitted(const Task& task) {
  if (!on() || task.notes) return;
  auto notes = std::make_shared<TaskNotes>();
  notes->site = CallSite::here();
  task.list_memory(notes->memory);
  {
    const std::lock_guard lock(mutex_);
    find_allocations(notes->memory);
  }
  task.notes = std::move(notes);
}

void Validation::captured(const CapturedGraph& /*graph*/, const Task& task) {
  if (!on() || task.kind() != TaskKind::kValueWait || !task.notes) return;
  const std::lock_guard lock(mutex_);
  for (const MemoryUse& use : task.notes->memory) signals_.awaited_by_graph(use.address);
}

void Validation::forget(const Task& task) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  host_.forget(&task);
}

void Validation::graph_made(const std::shared_ptr<CapturedGraph>& graph) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  graphs_[graph.get()] = graph;
  objects_.created(ObjectKind::kGraph, graph->handle, graph->device.id);
}

void Validation::graph_released(const CapturedGraph& graph) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  graphs_.erase(&graph);
  objects_.destroyed(graph.handle);
  for (const std::shared_ptr<TaskGroup>& group : graph.groups) updates_.forget(group.get());
}

// --- Order ---

std::unique_ptr<OrderLine> Validation::start_line() {
  if (!on()) return nullptr;
  const std::lock_guard lock(mutex_);
  // It begins behind what the host has seen, and so can take the number of a stream that ended before.
  return lines_.make(host_line_->clock());
}

void Validation::end_line(std::unique_ptr<OrderLine> line) {
  if (!line) return;
  const std::lock_guard lock(mutex_);
  lines_.end(*line);
}

OrderPointer Validation::host_order() {
  if (!on()) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!host_snapshot_) host_snapshot_ = host_line_->release();
  return host_snapshot_;
}

void Validation::host_saw(const OrderLine* line) {
  if (!on() || !line) return;
  const std::lock_guard lock(mutex_);
  host_line_->acquire(line->clock());
  host_snapshot_.reset();
}

void Validation::host_saw(const OrderPointer& order) {
  if (!on() || !order) return;
  const std::lock_guard lock(mutex_);
  host_line_->acquire(*order);
  host_snapshot_.reset();
}

void Validation::acquire(OrderLine* line, const OrderPointer& order) {
  if (!line || !order) return;
  const std::lock_guard lock(mutex_);
  line->acquire(*order);
}

OrderPointer Validation::release(OrderLine* line) {
  if (!line) return nullptr;
  const std::lock_guard lock(mutex_);
  return line->release();
}

std::unique_ptr<OrderLine> Validation::fork(OrderLine* line) {
  if (!line) return nullptr;
  const std::lock_guard lock(mutex_);
  return lines_.make(*line->release());
}

void Validation::join(OrderLine* line, std::unique_ptr<OrderLine> other) {
  if (!line || !other) return;
  const std::lock_guard lock(mutex_);
  line->acquire(other->clock());
  lines_.end(*other);
}

// --- Replays ---

void Validation::replay_submitted(const CapturedGraph& graph, const Task& task) {
  if (!on()) return;
  // Captured copies read the host's memory when they run; what the launch finds there is what the program meant.
  for (const std::unique_ptr<InnerStream>& line : graph.streams) {
    for (const std::shared_ptr<GraphNode>& node : line->nodes) watch_host(&task, *node->task);
  }
}

std::unique_ptr<ReplayNotes> Validation::replay_began(const CapturedGraph& graph, const Task& task, OrderLine* line) {
  if (!on() || !line || !task.notes) return nullptr;
  auto replay = std::make_unique<ReplayNotes>();
  replay->task = &task;
  replay->watched.graph = graph.id;
  replay->watched.site = task.notes->site;
  const std::lock_guard lock(mutex_);
  replay->watched.start = line->clock();
  return replay;
}

void Validation::node_runs(const GraphNode& node, const Task& task, ReplayNotes* replay, OrderLine* line) {
  if (!on() || !replay || !line) return;
  const std::shared_ptr<TaskGroup> group = node.group.lock();
  const std::lock_guard lock(mutex_);
  if (group) updates_.read(group.get(), *line, replay->watched.site);
  if (!task.notes) return;
  for (const MemoryUse& use : task.notes->memory) {
    if (!memory_.live(use.allocation)) report_freed(*replay, task, use);
    replay->watched.uses.push_back(use);
  }
}

void Validation::report_freed(const ReplayNotes& replay, const Task& task, const MemoryUse& use) {
  const MemoryLedger::Allocation* allocation = memory_.get(use.allocation);
  std::vector<Involved> involved = {{"replayed", replay.watched.site}};
  if (allocation) involved.push_back({"freed", allocation->freed});
  involved.push_back({"captured", task.notes->site});
  if (allocation) involved.push_back({"allocated", allocation->allocated});
  reporter_.report(Misuse::kFreedMemoryReplayed,
                   fmt::format("a replay of graph {} uses {} bytes at {}, which were freed, in {}",
                               replay.watched.graph, use.bytes, use.address, task.describe()),
                   involved);
}

void Validation::replay_ended(std::unique_ptr<ReplayNotes> replay, OrderLine* line) {
  if (!on() || !replay || !line) return;
  const std::lock_guard lock(mutex_);
  replay->watched.end = line->tick();
  replays_.ended(std::move(replay->watched));
}

void Validation::group_rewritten(const void* group, const Task& task, OrderLine* line) {
  if (!on() || !line || !task.notes) return;
  const std::lock_guard lock(mutex_);
  updates_.rewritten(group, *line, task.notes->site);
}

// --- Signals ---

void Validation::word_written(const void* word, uint64_t value, const Task& task) {
  if (!on() || !task.notes) return;
  const std::lock_guard lock(mutex_);
  signals_.word_written(word, value, task.notes->site);
}

void Validation::word_seen(const void* word) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  signals_.word_seen(word);
}

void Validation::words_overwritten(const void* address, uint64_t bytes) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  signals_.words_forgotten(address, bytes, false);
}

void Validation::external_recorded(const void* event, bool raised, const Task& task) {
  if (!on() || !task.notes) return;
  const std::lock_guard lock(mutex_);
  signals_.external_recorded(event, raised, task.notes->site);
}

void Validation::old_event_recorded(const void* event, uint64_t pending) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  signals_.old_recorded(event, pending);
}

// --- Copies ---

void Validation::watch_host(const Task* replay, const Task& task) {
  const HostRange source = task.host_source();
  const HostRange destination = task.host_destination();
  if (source.bytes == 0 && destination.bytes == 0) return;
  const PinnedMemory& pinned = Runtime::instance().pinned();
  const CallSite here = CallSite::here();
  const std::lock_guard lock(mutex_);
  const HostWatch::Key key{replay, &task};
  if (source.bytes > 0) host_.reads(key, source, pinned.hold(source.address, source.bytes), here);
  if (destination.bytes > 0) {
    host_.writes(key, destination, pinned.hold(destination.address, destination.bytes), here);
  }
}

void Validation::copy_submitted(const Task& task) {
  if (on()) watch_host(nullptr, task);
}

void Validation::copy_runs(const Task& task, const ReplayNotes* replay, bool over) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  host_.check({replay ? replay->task : nullptr, &task}, over);
}

void Validation::host_written(const void* address, uint64_t bytes) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  host_.written_in_order(address, bytes);
}

void Validation::host_function_ran() {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  host_.anything_written_in_order();
}

}  // namespace reprise::emulator
