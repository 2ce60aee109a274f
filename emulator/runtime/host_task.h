// The user's functions in a stream's order.
#pragma once

#include <cstdint>

#include "emulator/runtime/task.h"

namespace reprise::emulator {

/// aclrtLaunchHostFunc: runs on a thread of the runtime's; the stream waits for it.
class HostFunctionTask final : public Task {
 public:
  HostFunctionTask(aclrtHostFunc function, void* arguments) : function_(function), arguments_(arguments) {}
  TaskKind kind() const override { return TaskKind::kHostFunction; }
  Status run(TaskContext& context) const override;

 private:
  aclrtHostFunc function_;
  void* arguments_;
};

/// aclrtLaunchCallback: runs in the thread that subscribed for the stream, when it calls aclrtProcessReport.
class CallbackTask final : public Task {
 public:
  CallbackTask(aclrtCallback function, void* data, bool block, uint64_t thread)
      : function_(function), data_(data), block_(block), thread_(thread) {}
  TaskKind kind() const override { return TaskKind::kCallback; }
  Status run(TaskContext& context) const override;

 private:
  aclrtCallback function_;
  void* data_;
  bool block_;
  uint64_t thread_;
};

}  // namespace reprise::emulator
