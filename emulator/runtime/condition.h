// Conditional tasks: graphs inside a graph that run as a word of device memory says.
#pragma once

#include <memory>
#include <vector>

#include "emulator/runtime/handle_table.h"
#include "emulator/runtime/task.h"

namespace reprise::emulator {

class CapturedGraph;
class Device;
class Stream;

/// The word. Belongs to its graph. Guarded by Runtime::mutex().
class Condition {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kCondition;

  Condition(Device& device, CapturedGraph& owner, void* word, uint32_t default_value, bool assign)
      : graph(owner), address(word), device_(device), default_value_(default_value), assign_(assign) {}

  /// What every launch of the graph begins with, if the condition was made so.
  void assign_default();
  /// Frees the word and forgets the handle.
  void release();
  uint64_t value() const;

  CapturedGraph& graph;
  void* const address;
  void* handle = nullptr;

 private:
  Device& device_;
  uint32_t default_value_;
  bool assign_;
};

class ConditionTask final : public Task {
 public:
  ConditionTask(std::shared_ptr<Condition> condition, aclmdlRICondTaskType type,
                std::vector<std::shared_ptr<CapturedGraph>> bodies)
      : condition_(std::move(condition)), type_(type), bodies_(std::move(bodies)) {}
  TaskKind kind() const override { return TaskKind::kCondition; }
  Status run(TaskContext& context) const override;
  std::string describe() const override;

 private:
  // The body that runs now; null: none.
  CapturedGraph* choose() const;

  std::shared_ptr<Condition> condition_;
  aclmdlRICondTaskType type_;
  std::vector<std::shared_ptr<CapturedGraph>> bodies_;
};

// The calls, after the checks for null. With Runtime::mutex() held.
Status create_condition(CapturedGraph& graph, uint32_t default_value, uint32_t flag, aclmdlRICondHandle* handle);
Status find_condition(aclmdlRICondHandle handle, std::shared_ptr<Condition>& condition);
Status add_condition_task(const aclmdlRICondTaskParams& parameters, Stream& stream);

}  // namespace reprise::emulator
