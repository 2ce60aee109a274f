// Kernels as functions of typed arguments.
#pragma once

#include <array>
#include <exception>

#include "emulator/kernel.h"
#include "emulator/operators/kernel_arguments.h"

namespace reprise::emulator {

struct NoParameters {};

/// One run of a kernel.
template <typename Parameters>
class KernelCall {
 public:
  static constexpr size_t kMostTensors = 24;

  /// False when a tensor's memory is not there.
  bool open(const void* arguments) {
    const ArgumentReader reader(arguments);
    count_ = reader.tensors().size();
    parameters_ = static_cast<const Parameters*>(reader.parameters());
    tail_ = reader.tail();
    return count_ <= kMostTensors && find_tensors(reader.tensors(), tensors_);
  }

  const HostTensor& operator[](size_t i) const { return tensors_[i]; }
  size_t tensors() const { return count_; }
  const Parameters& parameters() const { return *parameters_; }
  std::span<const int64_t> tail() const { return tail_; }

 private:
  std::array<HostTensor, kMostTensors> tensors_;
  size_t count_ = 0;
  const Parameters* parameters_ = nullptr;
  std::span<const int64_t> tail_;
};

/// What a kernel costs that reads and writes its tensors once.
inline KernelCost plain_cost(const ArgumentReader& arguments) {
  KernelCost cost;
  for (const TensorArgument& tensor : arguments.tensors()) {
    if (!tensor.defined()) continue;
    (tensor.access == Access::kWrite ? cost.bytes_written : cost.bytes_read) += tensor.bytes();
  }
  return cost;
}

/// The kernel that calls `Run` (false: a fault of the device, such as an index that points outside). `Cost` may be
/// given when the tensors are not all read once, or for the multiply-adds.
template <typename Parameters, bool (*Run)(const KernelCall<Parameters>&),
          KernelCost (*Cost)(const ArgumentReader&) = plain_cost>
constexpr Kernel make_kernel(const char* name, KernelType type = KernelType::kVector) {
  Kernel kernel;
  kernel.name = name;
  kernel.type = type;
  kernel.run = [](const void* arguments, size_t, uint32_t) {
    try {
      KernelCall<Parameters> call;
      return call.open(arguments) && Run(call);
    } catch (const std::exception&) {
      return false;
    }
  };
  kernel.cost = [](const void* arguments, size_t) { return Cost(ArgumentReader(arguments)); };
  kernel.memory = [](const void* arguments, size_t, EmulatorMemoryVisitor visit, void* context) {
    visit_memory(ArgumentReader(arguments).tensors(), visit, context);
  };
  return kernel;
}

}  // namespace reprise::emulator
