#include "device/cpu/launch_accesses.h"

#include <algorithm>

namespace reprise::device::cpu {
namespace {

bool overlap(const MemoryAccess& a, const MemoryAccess& b) {
  const auto begin = [](const MemoryAccess& access) { return reinterpret_cast<uintptr_t>(access.address); };
  return begin(a) < begin(b) + b.bytes && begin(b) < begin(a) + a.bytes;
}

/// Whether an instruction of a graph that runs as a whole does nothing.
bool does_nothing(const Instruction& instruction) {
  return instruction.opcode == Opcode::kWaitEdge ||
         (instruction.opcode == Opcode::kRecordEdge && instruction.edge.done == nullptr);
}

}  // namespace

void LaunchAccesses::add(size_t instruction, std::span<const MemoryAccess> accesses) {
  launches_.push_back({instruction, all_.size(), all_.size() + accesses.size()});
  all_.insert(all_.end(), accesses.begin(), accesses.end());
}

bool LaunchAccesses::are_independent(const Launch& a, const Launch& b) const {
  for (const MemoryAccess& one : accesses_of(a)) {
    for (const MemoryAccess& other : accesses_of(b)) {
      if ((one.writes || other.writes) && overlap(one, other)) return false;
    }
  }
  return true;
}

void LaunchAccesses::mark_independent(std::span<Instruction> instructions) const {
  std::vector<const Launch*> run;  // the launches of the current one
  auto next = launches_.begin();
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (does_nothing(instructions[i])) continue;
    if (next == launches_.end() || next->instruction != i) {
      run.clear();
      continue;
    }
    const Launch& launch = *next++;
    const bool joins =
        run.size() < kMostLaunches && !run.empty() &&
        std::all_of(run.begin(), run.end(), [&](auto* other) { return are_independent(*other, launch); });
    if (!joins) run.clear();
    run.push_back(&launch);
    const size_t first = run[0]->instruction;
    if (run.size() > 1 && i - first < UINT16_MAX)
      instructions[first].independent = static_cast<uint16_t>(i - first + 1);
  }
}

}  // namespace reprise::device::cpu
