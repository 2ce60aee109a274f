#include "emulator/operators/meta/executor.h"

#include <memory>

#include "emulator/operators/meta/meta_call.h"

namespace {

using namespace reprise::emulator;

aclnnStatus set_slot(aclOpExecutor* executor, const std::vector<std::vector<size_t>>& arguments, size_t argument,
                     size_t relative, void* address) {
  if (argument >= arguments.size() || relative >= arguments[argument].size()) return ACLNN_ERR_PARAM_INVALID;
  executor->slots[arguments[argument][relative]].address = address;
  return ACLNN_SUCCESS;
}

/// Calls `set` with an executor whose addresses may change: a live, repeatable one.
template <typename Tensors, typename Set>
aclnnStatus with_repeatable(MetaCall& call, aclOpExecutor* executor, const Tensors* tensors, Set set) {
  META_TRY(call.use(executor, "executor"));
  META_TRY(call.use(tensors, "tensor"));
  if (!executor->repeatable) return call.result(ACLNN_ERR_PARAM_INVALID, "the executor is not repeatable");
  const aclnnStatus status = set();
  return call.result(status, status == ACLNN_SUCCESS ? "" : "the executor has no such tensor");
}

}  // namespace

extern "C" {

void emulatorAdoptExecutor(aclOpExecutor* executor) { adopt(std::unique_ptr<aclOpExecutor>(executor)); }

bool emulatorTakeExecutor(aclOpExecutor* executor) {
  if (!emulatorUseObject(ObjectKind::kExecutor, executor)) return false;
  // Its only call is over with this one.
  return executor->repeatable || destroy_object(ObjectKind::kExecutor, executor);
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  META_CALL({"executor", executor});
  META_TRY(call.use(executor, "executor"));
  executor->repeatable = true;
  return call.result(ACLNN_SUCCESS);
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  META_CALL({"executor", executor});
  return call.destroy(executor, "executor");
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) {
  META_CALL({"executor", executor}, {"index", static_cast<int64_t>(index)}, {"tensor", tensor}, {"address", address});
  return with_repeatable(call, executor, tensor,
                         [&] { return set_slot(executor, executor->inputs, index, 0, address); });
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) {
  META_CALL({"executor", executor}, {"index", static_cast<int64_t>(index)}, {"tensor", tensor}, {"address", address});
  return with_repeatable(call, executor, tensor,
                         [&] { return set_slot(executor, executor->outputs, index, 0, address); });
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) {
  META_CALL({"executor", executor}, {"index", static_cast<int64_t>(index)}, {"tensor", tensor}, {"address", address});
  return with_repeatable(call, executor, tensor, [&] {
    const size_t inputs = executor->inputs.size();
    return index < inputs ? set_slot(executor, executor->inputs, index, 0, address)
                          : set_slot(executor, executor->outputs, index - inputs, 0, address);
  });
}

aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
                                         aclTensorList* tensors, void* address) {
  META_CALL({"executor", executor}, {"irIndex", static_cast<int64_t>(irIndex)},
            {"relativeIndex", static_cast<int64_t>(relativeIndex)}, {"tensors", tensors}, {"address", address});
  return with_repeatable(call, executor, tensors,
                         [&] { return set_slot(executor, executor->inputs, irIndex, relativeIndex, address); });
}

aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
                                          aclTensorList* tensors, void* address) {
  META_CALL({"executor", executor}, {"irIndex", static_cast<int64_t>(irIndex)},
            {"relativeIndex", static_cast<int64_t>(relativeIndex)}, {"tensors", tensors}, {"address", address});
  return with_repeatable(call, executor, tensors,
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
