// The part of the interface that describes tensors, scalars and lists. What belongs to the caller is destroyed by the
// caller; using it afterwards is the caller's error.
#include <algorithm>
#include <memory>

#include "emulator/operators/meta/numbers.h"
#include "emulator/operators/meta/tensor.h"

namespace {

using namespace reprise::emulator;

template <typename T>
T value_at(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

void read_scalar(const void* value, aclScalar& scalar) {
  switch (scalar.dtype) {
    case ACL_FLOAT:
      scalar.real = static_cast<double>(value_at<float>(value));
      return;
    case ACL_DOUBLE:
      scalar.real = value_at<double>(value);
      return;
    case ACL_FLOAT16:
      scalar.real = static_cast<double>(float16_to_float(value_at<uint16_t>(value)));
      return;
    case ACL_BF16:
      scalar.real = static_cast<double>(bfloat16_to_float(value_at<uint16_t>(value)));
      return;
    case ACL_INT64:
    case ACL_UINT64:
      scalar.integer = value_at<int64_t>(value);
      return;
    case ACL_INT32:
      scalar.integer = value_at<int32_t>(value);
      return;
    case ACL_UINT32:
      scalar.integer = value_at<uint32_t>(value);
      return;
    case ACL_INT16:
      scalar.integer = value_at<int16_t>(value);
      return;
    case ACL_UINT16:
      scalar.integer = value_at<uint16_t>(value);
      return;
    case ACL_INT8:
      scalar.integer = value_at<int8_t>(value);
      return;
    default:
      scalar.integer = value_at<uint8_t>(value);
  }
}

template <typename T>
aclnnStatus destroy(const T* object) {
  if (object == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  delete object;
  return ACLNN_SUCCESS;
}

/// The caller deletes the array.
aclnnStatus give_copy(const aclTensor* tensor, const std::vector<int64_t> aclTensor::* sizes, int64_t** values,
                      uint64_t* count) {
  if (tensor == nullptr || values == nullptr || count == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  const std::vector<int64_t>& from = tensor->*sizes;
  *values = new int64_t[std::max<size_t>(from.size(), 1)]();
  std::copy(from.begin(), from.end(), *values);
  *count = from.size();
  return ACLNN_SUCCESS;
}

template <typename T, typename Value>
aclnnStatus give(const T* object, Value* value, Value of) {
  if (object == nullptr || value == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  *value = of;
  return ACLNN_SUCCESS;
}

constexpr uint64_t kMostDims = 8;

}  // namespace

extern "C" {

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
  const bool has_dims = viewDimsNum == 0 || viewDims != nullptr;
  const bool has_storage = storageDimsNum == 0 || storageDims != nullptr;
  if (!has_dims || !has_storage || viewDimsNum > kMostDims || size_of(dataType) == 0 || offset < 0) return nullptr;
  if (std::any_of(viewDims, viewDims + viewDimsNum, [](int64_t size) { return size < 0; })) return nullptr;
  auto tensor = std::make_unique<aclTensor>();
  tensor->dims.assign(viewDims, viewDims + viewDimsNum);
  tensor->storage.assign(storageDims, storageDims + storageDimsNum);
  tensor->strides.resize(viewDimsNum, 1);
  if (stride != nullptr) {
    std::copy_n(stride, viewDimsNum, tensor->strides.begin());
  } else {
    for (size_t i = viewDimsNum; i-- > 1;) {
      tensor->strides[i - 1] = tensor->strides[i] * std::max<int64_t>(tensor->dims[i], 1);
    }
  }
  tensor->offset = offset;
  tensor->dtype = dataType;
  tensor->format = format;
  tensor->data = tensorData;
  return tensor.release();
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  if (value == nullptr || size_of(dataType) == 0) return nullptr;
  auto scalar = std::make_unique<aclScalar>();
  scalar->dtype = dataType;
  read_scalar(value, *scalar);
  return scalar.release();
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  if (value == nullptr && size > 0) return nullptr;
  return new aclIntArray{{value, value + size}};
}

aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  if (value == nullptr && size > 0) return nullptr;
  return new aclFloatArray{{value, value + size}};
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  if (value == nullptr && size > 0) return nullptr;
  return new aclBoolArray{{value, value + size}};
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  if (value == nullptr && size > 0) return nullptr;
  return new aclTensorList{{value, value + size}};
}

aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  if (value == nullptr && size > 0) return nullptr;
  return new aclScalarList{{value, value + size}};
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) { return destroy(tensor); }
aclnnStatus aclDestroyScalar(const aclScalar* scalar) { return destroy(scalar); }
aclnnStatus aclDestroyIntArray(const aclIntArray* array) { return destroy(array); }
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) { return destroy(array); }
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) { return destroy(array); }

aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  if (array == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  for (const aclTensor* tensor : array->tensors) delete tensor;
  return destroy(array);
}

aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
  if (array == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  for (const aclScalar* scalar : array->scalars) delete scalar;
  return destroy(array);
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  return give_copy(tensor, &aclTensor::dims, viewDims, viewDimsNum);
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
  return give_copy(tensor, &aclTensor::storage, storageDims, storageDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
  return give_copy(tensor, &aclTensor::strides, stridesValue, stridesNum);
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return give(tensor, offset, tensor == nullptr ? int64_t{0} : tensor->offset);
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return give(tensor, format, tensor == nullptr ? ACL_FORMAT_UNDEFINED : tensor->format);
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return give(tensor, dataType, tensor == nullptr ? ACL_DT_UNDEFINED : tensor->dtype);
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return give(array, size, array == nullptr ? uint64_t{0} : array->values.size());
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return give(array, size, array == nullptr ? uint64_t{0} : array->values.size());
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return give(array, size, array == nullptr ? uint64_t{0} : array->values.size());
}

aclnnStatus aclGetTensorListSize(const aclTensorList* list, uint64_t* size) {
  return give(list, size, list == nullptr ? uint64_t{0} : list->tensors.size());
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** address) {
  return give(tensor, address, tensor == nullptr ? static_cast<void*>(nullptr) : tensor->data);
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* address) {
  if (tensor == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  tensor->data = address;
  return ACLNN_SUCCESS;
}

}  // extern "C"
