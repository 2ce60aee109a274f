// Order between the lines of one graph.
#pragma once

#include <cstddef>

#include "emulator/runtime/task.h"

namespace reprise::emulator {

class EdgeRecordTask final : public Task {
 public:
  explicit EdgeRecordTask(size_t number) : edge(number) {}
  TaskKind kind() const override { return TaskKind::kEdgeRecord; }
  Status run(TaskContext& context) const override;
  std::string describe() const override;

  const size_t edge;
};

class EdgeWaitTask final : public Task {
 public:
  explicit EdgeWaitTask(size_t number) : edge(number) {}
  TaskKind kind() const override { return TaskKind::kEdgeWait; }
  Status run(TaskContext& context) const override;
  std::string describe() const override;

  const size_t edge;
};

}  // namespace reprise::emulator
