// Notifies, and words of device memory that streams write and wait for.
#pragma once

#include <cstdint>
#include <memory>

#include "emulator/runtime/handle_table.h"
#include "emulator/runtime/task.h"
#include "emulator/runtime/validation/order.h"

namespace reprise::emulator {

class Device;

/// A flag that one stream raises and another awaits and lowers. Guarded by Runtime::mutex().
class Notify {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kNotify;

  explicit Notify(Device& owner) : device(owner) {}

  Device& device;
  void* handle = nullptr;
  bool raised = false;
  double model_clock = 0;
  OrderPointer order;
};

class NotifyRecordTask final : public Task {
 public:
  explicit NotifyRecordTask(std::shared_ptr<Notify> notify) : notify_(std::move(notify)) {}
  TaskKind kind() const override { return TaskKind::kNotifyRecord; }
  Status run(TaskContext& context) const override;

 private:
  std::shared_ptr<Notify> notify_;
};

class NotifyWaitTask final : public Task {
 public:
  NotifyWaitTask(std::shared_ptr<Notify> notify, std::optional<std::chrono::milliseconds> limit)
      : notify_(std::move(notify)), limit_(limit) {}
  TaskKind kind() const override { return TaskKind::kNotifyWait; }
  Status run(TaskContext& context) const override;

 private:
  std::shared_ptr<Notify> notify_;
  std::optional<std::chrono::milliseconds> limit_;
};

class ValueWriteTask final : public Task {
 public:
  ValueWriteTask(void* word, uint64_t written) : address(word), value(written) {}
  TaskKind kind() const override { return TaskKind::kValueWrite; }
  Status run(TaskContext& context) const override;
  std::string describe() const override;
  void list_memory(std::vector<MemoryUse>& uses) const override { uses.push_back({address, 8, true}); }

  void* const address;
  const uint64_t value;
};

class ValueWaitTask final : public Task {
 public:
  ValueWaitTask(void* word, uint64_t awaited, uint32_t how) : address(word), value(awaited), comparison(how) {}
  TaskKind kind() const override { return TaskKind::kValueWait; }
  Status run(TaskContext& context) const override;
  std::string describe() const override;
  void list_memory(std::vector<MemoryUse>& uses) const override { uses.push_back({address, 8, false}); }

  void* const address;
  const uint64_t value;
  const uint32_t comparison;  // ACL_VALUE_WAIT_*
};

}  // namespace reprise::emulator
