#include "ops/op_def.h"

namespace reprise::ops {

const OpKernel* OpDef::kernel(std::string_view device) const {
  for (const auto& [name, kernel] : kernels_) {
    if (name == device) return &kernel;
  }
  return nullptr;
}

void OpDef::set_kernel(std::string device, OpKernel kernel) {
  for (auto& [name, known] : kernels_) {
    if (name == device) {
      known = kernel;
      return;
    }
  }
  kernels_.emplace_back(std::move(device), kernel);
}

}  // namespace reprise::ops
