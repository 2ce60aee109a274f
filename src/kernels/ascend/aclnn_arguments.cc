#include "kernels/ascend/aclnn_arguments.h"

#include "base/error.h"
#include "device/ascend/acl_error.h"

namespace reprise::kernels::ascend {
namespace {

/// A descriptor that a list does not own.
template <typename T>
T* checked(T* made, const char* what) {
  if (made == nullptr) throw Error(ErrorCode::kOutOfMemory, "AscendCL made no descriptor of {}", what);
  return made;
}

}  // namespace

AclnnArguments::~AclnnArguments() {
  const auto destroy = [&](const auto& made, auto function, const char* call) {
    for (const auto* one : made) {
      if (const int code = function(one)) device::ascend::log_acl(library_, code, call, "giving a descriptor back");
    }
  };
  destroy(lists_, library_.aclDestroyTensorList, "aclDestroyTensorList");
  destroy(tensors_, library_.aclDestroyTensor, "aclDestroyTensor");
  destroy(arrays_, library_.aclDestroyIntArray, "aclDestroyIntArray");
  destroy(scalars_, library_.aclDestroyScalar, "aclDestroyScalar");
}

aclTensor* AclnnArguments::make_tensor(const TensorView& view) {
  std::array<int64_t, TensorView::kMaxRank + 2> storage{view.storage_elements()};
  size_t storage_rank = 1;
  if (view.blocked) {
    const int64_t columns = kBlockBytes / size_of(view.dtype);
    storage_rank = view.rank + 2;
    for (size_t axis = 0; axis + 2 < view.rank; ++axis) storage[axis] = view.sizes[axis];
    storage[view.rank - 2] = (view.size_back(1) + columns - 1) / columns;
    storage[view.rank - 1] = (view.size_back(2) + kBlockRows - 1) / kBlockRows;
    storage[view.rank] = kBlockRows;
    storage[view.rank + 1] = columns;
  }
  aclTensor* tensor = library_.aclCreateTensor(view.sizes.data(), view.rank, view.dtype, view.strides.data(), 0,
                                               view.blocked ? ACL_FORMAT_FRACTAL_NZ : ACL_FORMAT_ND, storage.data(),
                                               storage_rank, view.data);
  return checked(tensor, "a tensor");
}

aclTensor* AclnnArguments::give(const TensorView& view) {
  if (!view.defined()) return nullptr;
  tensors_.reserve(tensors_.size() + 1);
  tensors_.push_back(make_tensor(view));
  return tensors_.back();
}

aclTensorList* AclnnArguments::give(const TensorList& given) {
  if (given.views.empty()) return nullptr;
  std::vector<aclTensor*> made;
  for (const TensorView& view : given.views) made.push_back(give(view));
  aclTensorList* list = checked(library_.aclCreateTensorList(made.data(), made.size()), "a list of tensors");
  tensors_.resize(tensors_.size() - made.size());  // the list owns them now
  lists_.push_back(list);
  return list;
}

aclIntArray* AclnnArguments::give(std::span<const int64_t> values) {
  arrays_.push_back(checked(library_.aclCreateIntArray(values.data(), values.size()), "a list of numbers"));
  return arrays_.back();
}

aclScalar* AclnnArguments::give(const ScalarArgument& value) {
  auto real = static_cast<float>(value.real);
  int64_t integer = value.integer;
  void* data = value.is_real ? static_cast<void*>(&real) : &integer;
  scalars_.push_back(checked(library_.aclCreateScalar(data, value.is_real ? ACL_FLOAT : ACL_INT64), "a scalar"));
  return scalars_.back();
}

char* AclnnArguments::give(const char* text) {
  // The interface's parameters are not const, but nobody writes there.
  return const_cast<char*>(text);
}

}  // namespace reprise::kernels::ascend
