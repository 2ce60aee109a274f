#include "ops/weight_stack.h"

#include "base/error.h"

namespace reprise::ops {

void WeightStack::add(const Tensor& weight) {
  if (added_ == 0) {
    if (weight.rank() != 2 || weight.storage() == nullptr || weight.offset_bytes() != 0) {
      throw Error(ErrorCode::kInvalidArgument, "a stack of weights cannot take {}: it has no storage of its own",
                  weight.meta().to_string());
    }
    one_ = weight.meta();
    bytes_ = weight.format().is_plain() ? one_.contiguous_bytes() : weight.storage()->bytes();
    const size_t total = bytes_ * static_cast<size_t>(count_);
    storage_ = weight.data() == nullptr ? std::make_shared<Storage>(nullptr, total) : device_.allocate(total);
  }
  if (!(weight.meta() == one_) || added_ == count_) {
    throw Error(ErrorCode::kInvalidArgument, "weight {} of a stack of {} is {}, the first is {}", added_, count_,
                weight.meta().to_string(), one_.to_string());
  }
  copy_next(weight.data());
}

void WeightStack::repeat(int64_t index) {
  if (index < 0 || index >= added_ || added_ == count_) {
    throw Error(ErrorCode::kInvalidArgument, "weight {} of a stack of {}, which has {}, cannot be repeated", index,
                count_, added_);
  }
  copy_next(storage_->data() == nullptr
                ? nullptr
                : static_cast<const std::byte*>(storage_->data()) + static_cast<size_t>(index) * bytes_);
}

void WeightStack::copy_next(const void* weight) {
  if (storage_->data() != nullptr && bytes_ > 0) {
    device_.copy(static_cast<std::byte*>(storage_->data()) + static_cast<size_t>(added_) * bytes_, weight, bytes_,
                 device::CopyKind::kDeviceToDevice);
  }
  ++added_;
}

Tensor WeightStack::finish() const {
  if (added_ != count_ || count_ == 0) {
    throw Error(ErrorCode::kFailedPrecondition, "a stack of {} weights has {}", count_, added_);
  }
  return Tensor(TensorMeta(one_.dtype, Shape{count_, one_.shape[0], one_.shape[1]}, one_.format), storage_);
}

}  // namespace reprise::ops
