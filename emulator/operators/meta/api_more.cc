// The rest of the interface of tensors and executors: what the calls of api_meta.cc and executor.cc do already.
#include "emulator/operators/meta/tensor.h"

extern "C" {

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                          uint64_t storageDimsNum, void* tensorDataAddr) {
  if (tensor == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  const aclTensor* made = aclCreateTensor(viewDims, viewDimsNum, dataType, stride, offset, format, storageDims,
                                          storageDimsNum, tensorDataAddr);
  if (made == nullptr) return ACLNN_ERR_PARAM_INVALID;
  *tensor = *made;
  return aclDestroyTensor(made);
}

aclnnStatus aclGetScalarListSize(const aclScalarList* list, uint64_t* size) {
  if (list == nullptr || size == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  *size = list->scalars.size();
  return ACLNN_SUCCESS;
}

aclnnStatus AclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) {
  return aclSetInputTensorAddr(executor, index, tensor, address);
}

aclnnStatus AclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) {
  return aclSetOutputTensorAddr(executor, index, tensor, address);
}

aclnnStatus AclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) {
  return aclSetTensorAddr(executor, index, tensor, address);
}

aclnnStatus AclSetDynamicInputTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
                                         aclTensorList* tensors, void* address) {
  return aclSetDynamicInputTensorAddr(executor, irIndex, relativeIndex, tensors, address);
}

aclnnStatus AclSetDynamicOutputTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
                                          aclTensorList* tensors, void* address) {
  return aclSetDynamicOutputTensorAddr(executor, irIndex, relativeIndex, tensors, address);
}

aclnnStatus AclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
                                    aclTensorList* tensors, void* address) {
  return aclSetDynamicTensorAddr(executor, irIndex, relativeIndex, tensors, address);
}

}  // extern "C"
