#pragma once

#include <source_location>
#include <span>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// x in another float dtype, rounded to nearest even. x float32 or bfloat16 of any strides; the result is contiguous.
Tensor cast(ForwardContext& context, const Tensor& x, DType dtype,
            std::source_location where = std::source_location::current());

/// A contiguous copy of x, of any dtype and strides.
Tensor copy(ForwardContext& context, const Tensor& x, std::source_location where = std::source_location::current());
/// Copies `from` over `to`, in place: one shape and dtype, any strides, no shared memory.
void copy_(ForwardContext& context, const Tensor& to, const Tensor& from,
           std::source_location where = std::source_location::current());

/// Tensors that one cat operator takes; the function below nests operators for more.
inline constexpr size_t kMaxCatTensors = 8;
/// The tensors one after the other along an axis: at least one, of one dtype, and of one shape but for that axis. Along
/// axis 0 their sizes may be symbolic in one symbol. (The operator's attribute `placed` is for graphs: a pass that sets
/// it asks the memory plan to make the tensors where they lie in the result. It changes no value.)
Tensor cat(ForwardContext& context, std::span<const Tensor> tensors, int64_t axis,
           std::source_location where = std::source_location::current());

void register_copies(Registry& registry);

}  // namespace reprise::ops
