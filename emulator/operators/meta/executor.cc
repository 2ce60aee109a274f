#include "emulator/operators/meta/executor.h"

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "emulator/operators/meta/tensor.h"

namespace {

/// So many used executors are remembered, as long as their addresses are not given out again.
constexpr size_t kKeptAfterUse = 1024;

class ExecutorRegistry {
 public:
  void adopt(aclOpExecutor* executor) {
    const std::lock_guard lock(mutex_);
    live_.emplace(executor, std::unique_ptr<aclOpExecutor>(executor));
  }

  bool take(aclOpExecutor* executor) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(executor);
    if (found == live_.end() || found->second->used) return false;
    if (executor->repeatable) return true;
    executor->used = true;
    used_.push_back(executor);
    if (used_.size() > kKeptAfterUse) {
      live_.erase(used_.front());
      used_.pop_front();
    }
    return true;
  }

  /// Null when it is none that can still be called.
  aclOpExecutor* find(aclOpExecutor* executor) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(executor);
    return found == live_.end() || found->second->used ? nullptr : executor;
  }

  bool destroy(aclOpExecutor* executor) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(executor);
    if (found == live_.end() || found->second->used) return false;
    live_.erase(found);
    return true;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<aclOpExecutor*, std::unique_ptr<aclOpExecutor>> live_;
  std::deque<aclOpExecutor*> used_;
};

/// Never destroyed: programs may use executors while the process ends.
ExecutorRegistry& registry() {
  static auto* instance = new ExecutorRegistry;
  return *instance;
}

aclnnStatus set_slot(aclOpExecutor* executor, const std::vector<std::vector<size_t>>& arguments, size_t argument,
                     size_t relative, void* address) {
  if (argument >= arguments.size() || relative >= arguments[argument].size()) return ACLNN_ERR_PARAM_INVALID;
  executor->slots[arguments[argument][relative]].address = address;
  return ACLNN_SUCCESS;
}

/// Calls `set` with an executor whose addresses may change: a live, repeatable one.
template <typename Set>
aclnnStatus with_repeatable(const char* call, aclOpExecutor* executor, const void* tensor, Set set) {
  aclnnStatus status = ACLNN_ERR_PARAM_INVALID;
  if (executor == nullptr || tensor == nullptr) {
    status = ACLNN_ERR_PARAM_NULLPTR;
  } else if (const aclOpExecutor* live = registry().find(executor); live != nullptr && live->repeatable) {
    status = set();
  }
  emulatorOperatorResult(call, status, status == ACLNN_SUCCESS ? nullptr : "it is no repeatable executor's tensor");
  return status;
}

}  // namespace

extern "C" {

void emulatorAdoptExecutor(aclOpExecutor* executor) { registry().adopt(executor); }

bool emulatorTakeExecutor(aclOpExecutor* executor) { return registry().take(executor); }

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  if (executor == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  if (registry().find(executor) == nullptr) return ACLNN_ERR_PARAM_INVALID;
  executor->repeatable = true;
  return ACLNN_SUCCESS;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  if (executor == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  return registry().destroy(executor) ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID;
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) {
  return with_repeatable("aclSetInputTensorAddr", executor, tensor,
                         [&] { return set_slot(executor, executor->inputs, index, 0, address); });
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) {
  return with_repeatable("aclSetOutputTensorAddr", executor, tensor,
                         [&] { return set_slot(executor, executor->outputs, index, 0, address); });
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) {
  return with_repeatable("aclSetTensorAddr", executor, tensor, [&] {
    const size_t inputs = executor->inputs.size();
    return index < inputs ? set_slot(executor, executor->inputs, index, 0, address)
                          : set_slot(executor, executor->outputs, index - inputs, 0, address);
  });
}

aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
                                         aclTensorList* tensors, void* address) {
  return with_repeatable("aclSetDynamicInputTensorAddr", executor, tensors,
                         [&] { return set_slot(executor, executor->inputs, irIndex, relativeIndex, address); });
}

aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
                                          aclTensorList* tensors, void* address) {
  return with_repeatable("aclSetDynamicOutputTensorAddr", executor, tensors,
                         [&] { return set_slot(executor, executor->outputs, irIndex, relativeIndex, address); });
}

aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
                                    aclTensorList* tensors, void* address) {
  return with_repeatable("aclSetDynamicTensorAddr", executor, tensors, [&] {
    const size_t inputs = executor->inputs.size();
    return irIndex < inputs ? set_slot(executor, executor->inputs, irIndex, relativeIndex, address)
                            : set_slot(executor, executor->outputs, irIndex - inputs, relativeIndex, address);
  });
}

}  // extern "C"
