#include "emulator/operators/meta/executor.h"

#include <memory>

#include "emulator/operators/meta/meta_call.h"

namespace {

using namespace reprise::emulator;

using Arguments = std::vector<std::vector<size_t>> aclOpExecutor::*;

/// Of an argument, counted among the inputs, the outputs or (null) both, and the tensors of a list.
aclnnStatus set_slot(aclOpExecutor* executor, Arguments arguments, size_t argument, size_t relative, void* address) {
  if (arguments == nullptr) {
    const size_t inputs = executor->inputs.size();
    arguments = argument < inputs ? &aclOpExecutor::inputs : &aclOpExecutor::outputs;
    if (argument >= inputs) argument -= inputs;
  }
  const std::vector<std::vector<size_t>>& slots = executor->*arguments;
  if (argument >= slots.size() || relative >= slots[argument].size()) return ACLNN_ERR_PARAM_INVALID;
  executor->slots[slots[argument][relative]].address = address;
  return ACLNN_SUCCESS;
}

/// Of a live, repeatable executor.
template <typename Tensors>
aclnnStatus set_address(MetaCall& call, aclOpExecutor* executor, const Tensors* tensors, Arguments arguments,
                        size_t argument, size_t relative, void* address) {
  // The code of the interface's source, which calls with other arguments have not.
  if (executor == nullptr || tensors == nullptr) {
    return call.result(ACLNN_ERR_INNER_NULLPTR, "executor or tensor is a null pointer");
  }
  META_TRY(call.use(executor, "executor"));
  META_TRY(call.use(tensors, "tensor"));
  if (!executor->repeatable) return call.result(ACLNN_ERR_PARAM_INVALID, "the executor is not repeatable");
  const aclnnStatus status = set_slot(executor, arguments, argument, relative, address);
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

// Every one of them has two names.
#define ADDRESS_OF_TENSOR(name, arguments)                                                          \
  aclnnStatus name(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) { \
    META_CALL({"executor", executor}, {"index", static_cast<int64_t>(index)}, {"tensor", tensor},   \
              {"address", address});                                                                \
    return set_address(call, executor, tensor, arguments, index, 0, address);                       \
  }
#define ADDRESS_IN_LIST(name, arguments)                                                                           \
  aclnnStatus name(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex, aclTensorList* tensors,    \
                   void* address) {                                                                                \
    META_CALL({"executor", executor}, {"irIndex", static_cast<int64_t>(irIndex)},                                  \
              {"relativeIndex", static_cast<int64_t>(relativeIndex)}, {"tensors", tensors}, {"address", address}); \
    return set_address(call, executor, tensors, arguments, irIndex, relativeIndex, address);                       \
  }

ADDRESS_OF_TENSOR(aclSetInputTensorAddr, &aclOpExecutor::inputs)
ADDRESS_OF_TENSOR(AclSetInputTensorAddr, &aclOpExecutor::inputs)
ADDRESS_OF_TENSOR(aclSetOutputTensorAddr, &aclOpExecutor::outputs)
ADDRESS_OF_TENSOR(AclSetOutputTensorAddr, &aclOpExecutor::outputs)
ADDRESS_OF_TENSOR(aclSetTensorAddr, nullptr)
ADDRESS_OF_TENSOR(AclSetTensorAddr, nullptr)
ADDRESS_IN_LIST(aclSetDynamicInputTensorAddr, &aclOpExecutor::inputs)
ADDRESS_IN_LIST(AclSetDynamicInputTensorAddr, &aclOpExecutor::inputs)
ADDRESS_IN_LIST(aclSetDynamicOutputTensorAddr, &aclOpExecutor::outputs)
ADDRESS_IN_LIST(AclSetDynamicOutputTensorAddr, &aclOpExecutor::outputs)
ADDRESS_IN_LIST(aclSetDynamicTensorAddr, nullptr)
ADDRESS_IN_LIST(AclSetDynamicTensorAddr, nullptr)

}  // extern "C"
