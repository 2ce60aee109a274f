// The part of the interface that describes tensors, scalars and lists. What belongs to the caller is destroyed by the
// caller; using it afterwards is an error that is noticed for a while.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "emulator/operators/meta/meta_call.h"
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

/// The caller deletes the array.
aclnnStatus give_copy(MetaCall& call, const std::vector<int64_t>& from, int64_t** values, uint64_t* count) {
  *values = new int64_t[std::max<size_t>(from.size(), 1)]();
  std::copy(from.begin(), from.end(), *values);
  *count = from.size();
  return call.result(ACLNN_SUCCESS);
}

constexpr uint64_t kMostDims = 8;
/// Arrays and lists of the host: what is longer is no count but a mistake.
constexpr uint64_t kMostElements = uint64_t{1} << 32;

/// How many elements; none when a size is negative or they are more than 63 bits count. A size of 0 does not hide that
/// the others are too many.
std::optional<int64_t> count_elements(std::span<const int64_t> sizes, int64_t element_bytes) {
  int64_t product = element_bytes;
  bool empty = false;
  for (const int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    if (size == 0) empty = true;
    if (size > 0 && __builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return empty ? 0 : product / element_bytes;
}

/// Whether the bytes between the storage's begin and each element of the view can be counted.
bool can_reach(const aclTensor& tensor) {
  __int128 first = tensor.offset;
  __int128 last = tensor.offset;
  for (size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    const __int128 span = static_cast<__int128>(std::max<int64_t>(tensor.dims[axis] - 1, 0)) * tensor.strides[axis];
    (span < 0 ? first : last) += span;
  }
  const __int128 limit = INT64_MAX / static_cast<int64_t>(size_of(tensor.dtype));
  return last < limit && first > -limit;
}

/// Why a tensor cannot be made; empty when it can.
std::string refusal(const aclTensor& tensor) {
  const auto bytes = static_cast<int64_t>(size_of(tensor.dtype));
  if (bytes == 0) return "the data type is none of a tensor";
  if (tensor.offset < 0) return "offset is negative";
  if (!count_elements(tensor.dims, bytes)) return "viewDims are negative, or more bytes than can be counted";
  if (!count_elements(tensor.storage, bytes)) return "storageDims are negative, or more bytes than can be counted";
  if (!can_reach(tensor)) return "stride and offset reach further than can be counted";
  return {};
}

void set_strides(aclTensor& tensor, const int64_t* stride) {
  tensor.strides.resize(tensor.dims.size(), 1);
  if (stride != nullptr) {
    std::copy_n(stride, tensor.dims.size(), tensor.strides.begin());
    return;
  }
  for (size_t i = tensor.dims.size(); i-- > 1;) {
    // An overflow is one of the sizes' product, which is refused.
    if (__builtin_mul_overflow(tensor.strides[i], std::max<int64_t>(tensor.dims[i], 1), &tensor.strides[i - 1])) return;
  }
}

/// What a tensor shall be, as its makers are told.
struct TensorWish {
  const int64_t* dims;
  uint64_t rank;
  aclDataType dtype;
  const int64_t* strides;
  int64_t offset;
  aclFormat format;
  const int64_t* storage;
  uint64_t storage_rank;
  void* data;
};

/// Why there can be no such tensor; empty when `tensor` is it now.
std::string describe(const TensorWish& wish, aclTensor& tensor) {
  if (wish.rank > kMostDims || wish.storage_rank > kMostDims) return "a tensor has at most 8 dimensions";
  if (wish.rank > 0 && wish.dims == nullptr) return "viewDims is a null pointer";
  if (wish.storage_rank > 0 && wish.storage == nullptr) return "storageDims is a null pointer";
  tensor.dims.assign(wish.dims, wish.dims + wish.rank);
  tensor.storage.assign(wish.storage, wish.storage + wish.storage_rank);
  tensor.offset = wish.offset;
  tensor.dtype = wish.dtype;
  tensor.format = wish.format;
  tensor.data = wish.data;
  set_strides(tensor, wish.strides);
  return refusal(tensor);
}

template <typename Array, typename Value>
Array* make_array(MetaCall& call, const Value* values, uint64_t size) {
  if (values == nullptr && size > 0) return call.refuse("value is a null pointer");
  if (size > kMostElements) return call.refuse("size is larger than any array");
  return call.made(std::make_unique<Array>(Array{{values, values + size}}));
}

/// A list of what lives, or of null pointers.
template <typename List, typename T>
List* make_list(MetaCall& call, const T* const* values, uint64_t size) {
  if (values == nullptr && size > 0) return call.refuse("value is a null pointer");
  if (size > kMostElements) return call.refuse("size is larger than any list");
  for (uint64_t i = 0; i < size; ++i) {
    if (values[i] != nullptr && call.use(values[i], "an element") != ACLNN_SUCCESS) return nullptr;
  }
  return call.made(std::make_unique<List>(List{{values, values + size}}));
}

/// With its elements, which belong to it.
template <typename List, typename T>
aclnnStatus destroy_list(MetaCall& call, const List* list, const std::vector<const T*> List::* elements) {
  META_TRY(call.use(list, "array"));
  bool whole = true;
  for (const T* element : list->*elements) {
    if (element != nullptr) whole = destroy_object(kind_of(element), element) && whole;
  }
  META_TRY(call.destroy(list, "array"));
  return whole ? ACLNN_SUCCESS : call.result(ACLNN_ERR_PARAM_INVALID, "an element of the list was destroyed before");
}

}  // namespace

extern "C" {

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
  META_CALL({"viewDims", viewDims, viewDimsNum}, {"dataType", int64_t{dataType}}, {"stride", stride, viewDimsNum},
            {"offset", offset}, {"format", int64_t{format}}, {"storageDims", storageDims, storageDimsNum},
            {"tensorData", tensorData});
  auto made = std::make_unique<aclTensor>();
  std::string why = describe(
      {viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData}, *made);
  if (!why.empty()) return call.refuse(std::move(why));
  return call.made(std::move(made));
}

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                          uint64_t storageDimsNum, void* tensorDataAddr) {
  META_CALL({"tensor", tensor}, {"viewDims", viewDims, viewDimsNum}, {"dataType", int64_t{dataType}},
            {"stride", stride, viewDimsNum}, {"offset", offset}, {"format", int64_t{format}},
            {"storageDims", storageDims, storageDimsNum}, {"tensorDataAddr", tensorDataAddr});
  META_TRY(call.use(tensor, "tensor"));
  aclTensor made;
  std::string why = describe(
      {viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorDataAddr}, made);
  if (!why.empty()) return call.result(ACLNN_ERR_PARAM_INVALID, std::move(why));
  *tensor = std::move(made);
  return call.result(ACLNN_SUCCESS);
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  META_CALL({"value", value}, {"dataType", int64_t{dataType}});
  if (value == nullptr) return call.refuse("value is a null pointer");
  if (size_of(dataType) == 0) return call.refuse("the data type is none of a scalar");
  auto scalar = std::make_unique<aclScalar>();
  scalar->dtype = dataType;
  read_scalar(value, *scalar);
  return call.made(std::move(scalar));
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  META_CALL({"value", value, size}, {"size", static_cast<int64_t>(size)});
  return make_array<aclIntArray>(call, value, size);
}

aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  META_CALL({"value", value}, {"size", static_cast<int64_t>(size)});
  return make_array<aclFloatArray>(call, value, size);
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  META_CALL({"value", value}, {"size", static_cast<int64_t>(size)});
  return make_array<aclBoolArray>(call, value, size);
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  META_CALL({"value", value}, {"size", static_cast<int64_t>(size)});
  return make_list<aclTensorList>(call, value, size);
}

aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  META_CALL({"value", value}, {"size", static_cast<int64_t>(size)});
  return make_list<aclScalarList>(call, value, size);
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  META_CALL({"tensor", tensor});
  return call.destroy(tensor, "tensor");
}

aclnnStatus aclDestroyScalar(const aclScalar* scalar) {
  META_CALL({"scalar", scalar});
  return call.destroy(scalar, "scalar");
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  META_CALL({"array", array});
  return call.destroy(array, "array");
}

aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
  META_CALL({"array", array});
  return call.destroy(array, "array");
}

aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  META_CALL({"array", array});
  return call.destroy(array, "array");
}

aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  META_CALL({"array", array});
  return destroy_list(call, array, &aclTensorList::tensors);
}

aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
  META_CALL({"array", array});
  return destroy_list(call, array, &aclScalarList::scalars);
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  META_CALL({"tensor", tensor});
  META_TRY(call.use(tensor, "tensor"));
  META_REQUIRE(viewDims);
  META_REQUIRE(viewDimsNum);
  return give_copy(call, tensor->dims, viewDims, viewDimsNum);
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
  META_CALL({"tensor", tensor});
  META_TRY(call.use(tensor, "tensor"));
  META_REQUIRE(storageDims);
  META_REQUIRE(storageDimsNum);
  return give_copy(call, tensor->storage, storageDims, storageDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
  META_CALL({"tensor", tensor});
  META_TRY(call.use(tensor, "tensor"));
  META_REQUIRE(stridesValue);
  META_REQUIRE(stridesNum);
  return give_copy(call, tensor->strides, stridesValue, stridesNum);
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  META_CALL({"tensor", tensor});
  META_TRY(call.use(tensor, "tensor"));
  META_REQUIRE(offset);
  *offset = tensor->offset;
  return call.result(ACLNN_SUCCESS);
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  META_CALL({"tensor", tensor});
  META_TRY(call.use(tensor, "tensor"));
  META_REQUIRE(format);
  *format = tensor->format;
  return call.result(ACLNN_SUCCESS);
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  META_CALL({"tensor", tensor});
  META_TRY(call.use(tensor, "tensor"));
  META_REQUIRE(dataType);
  *dataType = tensor->dtype;
  return call.result(ACLNN_SUCCESS);
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  META_CALL({"array", array});
  META_TRY(call.use(array, "array"));
  META_REQUIRE(size);
  *size = array->values.size();
  return call.result(ACLNN_SUCCESS);
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  META_CALL({"array", array});
  META_TRY(call.use(array, "array"));
  META_REQUIRE(size);
  *size = array->values.size();
  return call.result(ACLNN_SUCCESS);
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  META_CALL({"array", array});
  META_TRY(call.use(array, "array"));
  META_REQUIRE(size);
  *size = array->values.size();
  return call.result(ACLNN_SUCCESS);
}

aclnnStatus aclGetTensorListSize(const aclTensorList* list, uint64_t* size) {
  META_CALL({"list", list});
  META_TRY(call.use(list, "list"));
  META_REQUIRE(size);
  *size = list->tensors.size();
  return call.result(ACLNN_SUCCESS);
}

aclnnStatus aclGetScalarListSize(const aclScalarList* list, uint64_t* size) {
  META_CALL({"list", list});
  META_TRY(call.use(list, "list"));
  META_REQUIRE(size);
  *size = list->scalars.size();
  return call.result(ACLNN_SUCCESS);
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** address) {
  META_CALL({"tensor", tensor});
  META_TRY(call.use(tensor, "tensor"));
  META_REQUIRE(address);
  *address = tensor->data;
  return call.result(ACLNN_SUCCESS);
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* address) {
  META_CALL({"tensor", tensor}, {"address", address});
  META_TRY(call.use(tensor, "tensor"));
  tensor->data = address;
  return call.result(ACLNN_SUCCESS);
}

}  // extern "C"
