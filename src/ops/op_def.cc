#include "ops/op_def.h"

#include "base/error.h"

namespace reprise::ops {

int64_t Tiling::choose(std::string_view name, int64_t value) {
  choices.push_back({name, value});
  return value;
}

int64_t Tiling::chosen(std::string_view name) const {
  for (const Choice& choice : choices) {
    if (choice.name == name) return choice.value;
  }
  throw Error(ErrorCode::kInternal, "the plan has not chosen '{}'", name);
}

void Tiling::clear() {
  values.clear();
  tiles = 0;
  choices.clear();
}

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
