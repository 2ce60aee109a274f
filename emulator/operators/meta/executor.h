// What the first phase of an operator's call leaves for the second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/kernel.h"
#include "emulator/operators/exported.h"

namespace reprise::emulator {

/// One kernel of an operator, with its arguments.
struct Launch {
  const Kernel* kernel = nullptr;
  uint32_t blocks = 1;
  std::vector<std::byte> arguments;  ///< as argument_layout.h says
};

/// A tensor of the caller's that kernels read or write.
struct Slot {
  void* address = nullptr;
};

}  // namespace reprise::emulator

/// `inputs` and `outputs` say for each argument of the operator, in the order of its signature, which slots it is: one
/// for a tensor, several for a list, none when it was left out.
struct aclOpExecutor {
  std::string name;
  std::vector<reprise::emulator::Launch> launches;
  std::vector<reprise::emulator::Slot> slots;
  std::vector<std::vector<size_t>> inputs;
  std::vector<std::vector<size_t>> outputs;
  uint64_t workspace_bytes = 0;
  bool repeatable = false;
};

#pragma GCC visibility push(default)
extern "C" {
/// From now on the executor belongs to libnnopbase.
void emulatorAdoptExecutor(aclOpExecutor* executor);
/// True when it is one that may be launched; afterwards it is used unless it is repeatable. It can be read until the
/// call is over, and is kept for a while so that a second use is noticed.
bool emulatorTakeExecutor(aclOpExecutor* executor);
}
#pragma GCC visibility pop
