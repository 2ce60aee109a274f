#pragma once

#include <array>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "device/cpu/cpu_stream.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"
#include "kernels/cpu/product_tiles.h"
#include "kernels/cpu/quantize.h"
#include "ops/op_def.h"

// What the registration files share: from tensors to raw pointers, sizes and strides.

namespace reprise::kernels::cpu {

inline constexpr std::string_view kDeviceName = "cpu";

inline device::cpu::CpuStream& stream_of(const ops::OpCall& call) {
  return static_cast<device::cpu::CpuStream&>(*call.stream);
}

/// Of a tensor that the shape function has found to be float32 or bfloat16.
inline Element element_of(const Tensor& tensor) {
  return tensor.dtype() == DType::kF32 ? Element::kF32 : Element::kBf16;
}
inline size_t index_of(const Tensor& tensor) { return static_cast<size_t>(element_of(tensor)); }

/// The kernels of one operator as the device launches them, with the names that dumps show: "add.bf16.avx2".
template <size_t kCount>
class NamedKernels {
 public:
  NamedKernels(std::string_view op, InstructionSet set, const KernelFunction (&functions)[kCount],
               const std::string_view (&variants)[kCount]) {
    for (size_t i = 0; i < kCount; ++i) {
      size_t length = 0;
      for (const std::string_view part :
           {op, std::string_view("."), variants[i], std::string_view("."), name_of(set)}) {
        length += part.copy(names_[i].data() + length, names_[i].size() - 1 - length);
      }
      kernels_[i] = {names_[i].data(), functions[i]};
    }
  }
  // Kernels point to their names.
  NamedKernels(const NamedKernels&) = delete;
  NamedKernels& operator=(const NamedKernels&) = delete;

  const device::cpu::Kernel& operator[](size_t index) const { return kernels_[index]; }

 private:
  std::array<std::array<char, 64>, kCount> names_{};
  std::array<device::cpu::Kernel, kCount> kernels_{};
};

inline constexpr std::string_view kElementNames[2] = {"f32", "bf16"};

/// Calls function(std::integral_constant<InstructionSet, set>()): operators' run functions carry no state, so they are
/// made once for each instruction set.
template <typename Function>
void with_instruction_set(InstructionSet set, Function function) {
  switch (set) {
    case InstructionSet::kPortable:
      return function(std::integral_constant<InstructionSet, InstructionSet::kPortable>());
    case InstructionSet::kAvx2:
      return function(std::integral_constant<InstructionSet, InstructionSet::kAvx2>());
    case InstructionSet::kAvx512:
      return function(std::integral_constant<InstructionSet, InstructionSet::kAvx512>());
    case InstructionSet::kAvx512Bf16:
      return function(std::integral_constant<InstructionSet, InstructionSet::kAvx512Bf16>());
  }
}

/// Up to four tensors of one shape seen as rows of columns without gaps: neighbouring axes that lie evenly in all of
/// them are merged.
struct RowsView {
  int64_t rows = 1;
  int64_t columns = 1;
  std::array<int64_t, 4> row_strides{};  ///< one for each tensor
};
/// Throws kUnsupported, with copy() as the remedy, when more than rows and columns remain. `keep_last`: the last axis
/// is the columns, and is not merged.
RowsView view_as_rows(const ops::OpCall& call, std::initializer_list<const Tensor*> tensors, bool keep_last = false);

/// A tensor [..., width] seen as [tokens, heads, width].
struct HeadsView {
  int64_t tokens = 1;
  int64_t heads = 1;
  int64_t width = 1;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};
HeadsView view_as_heads(const ops::OpCall& call, const Tensor& tensor);

/// The packing in which products read a weight: float32, bfloat16 or int8.
Format packed_format(const Tensor& weight);
/// Throws kUnsupported unless an argument is a weight, or a stack of experts' weights, in its packed format.
void require_packed(const ops::OpCall& call, size_t input);
void require_packed_stack(const ops::OpCall& call, size_t input);

/// A vector that the shape functions let be float32 or of the dtype of the rows; these kernels take float32. Throws
/// kUnsupported for another.
const float* float_vector(const ops::OpCall& call, size_t input);
/// The arguments of a static quantisation: argument `scale`, and behind it the offset, which may be absent.
QuantizeScales quantize_scales(const ops::OpCall& call, size_t scale);

/// How a product of `rows` rows of x with a weight [N, K] goes about it, by the tuning of the call's kernel.
ProductTiles product_tiles(const ops::OpCall& call, const Tensor& x, const Tensor& weight, int64_t rows);
/// The same of `rows` rows of type `x`, grouped by expert, with a stack of experts' weights [E, N, K].
ProductTiles grouped_product_tiles(const ops::OpCall& call, DType x, const Tensor& stack, int64_t rows);

/// Distance between the tokens of an argument [tokens, heads, width], whose heads must lie side by side.
int64_t token_stride(const ops::OpCall& call, size_t input);

}  // namespace reprise::kernels::cpu
