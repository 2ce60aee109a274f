// A recorded task of a graph, and the line of them that one stream became.
#pragma once

#include <deque>
#include <memory>

#include "emulator/runtime/handle_table.h"
#include "emulator/runtime/task.h"

namespace reprise::emulator {

class CapturedGraph;
class InnerStream;
class TaskGroup;

/// Guarded by Runtime::mutex().
class GraphNode {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kTask;

  InnerStream* stream = nullptr;  // that holds it
  uint32_t sequence = 0;          // in the graph, from 0
  TaskPointer task;
  std::weak_ptr<TaskGroup> group;
  bool disabled = false;
  void* handle = nullptr;  // once somebody asked for it

  // Changes of single tasks take effect with aclmdlRIUpdate.
  TaskPointer staged_task;
  bool staged_disabled = false;
};

/// Guarded by Runtime::mutex().
class InnerStream {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kInnerStream;

  CapturedGraph* graph = nullptr;
  void* handle = nullptr;  // once somebody asked for it
  int32_t id = 0;
  int32_t user_stream = 0;  // the id of the stream that was recorded
  uint32_t queues = 1;      // hardware queues: a long line is chained over several
  std::deque<std::shared_ptr<GraphNode>> nodes;
};

}  // namespace reprise::emulator
