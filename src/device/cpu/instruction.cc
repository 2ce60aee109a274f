#include "device/cpu/instruction.h"

#include <algorithm>

namespace reprise::device::cpu {
namespace {

/// Below this, a second thread costs more than it copies.
constexpr size_t kBytesPerThread = 128 * 1024;

int width_of_bytes(size_t bytes, int threads) {
  const size_t pieces = (bytes + kBytesPerThread - 1) / kBytesPerThread;
  return static_cast<int>(std::min<size_t>(pieces, static_cast<size_t>(threads)));
}

/// Ranges that overlap are moved by one thread.
bool overlaps(const CopyOperands& copy) {
  const auto destination = reinterpret_cast<uintptr_t>(copy.destination);
  const auto source = reinterpret_cast<uintptr_t>(copy.source);
  return destination < source + copy.bytes && source < destination + copy.bytes;
}

}  // namespace

std::string_view name_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kLaunch:
      return "launch";
    case Opcode::kCopy:
      return "copy";
    case Opcode::kFill:
      return "fill";
    case Opcode::kHostFunction:
      return "host_function";
    case Opcode::kExternalRecord:
      return "external_record";
    case Opcode::kExternalWait:
      return "external_wait";
    case Opcode::kRecord:
    case Opcode::kRecordEdge:
      return "record";
    case Opcode::kWait:
    case Opcode::kWaitEdge:
      return "wait";
    case Opcode::kReplay:
      return "replay";
    case Opcode::kUpdateLaunch:
      return "update_launch";
    case Opcode::kBeginGroup:
      return "begin_task_group";
    case Opcode::kEndGroup:
      return "end_task_group";
  }
  return "unknown";
}

int width_of(const Instruction& instruction, int threads) {
  if (instruction.threads != 0) threads = std::min<int>(threads, instruction.threads);
  switch (instruction.opcode) {
    case Opcode::kLaunch:
      return static_cast<int>(std::min<int64_t>(instruction.launch.tiles, threads));
    case Opcode::kCopy:
      return overlaps(instruction.copy) ? 1 : width_of_bytes(instruction.copy.bytes, threads);
    case Opcode::kFill:
      return width_of_bytes(instruction.fill.bytes, threads);
    case Opcode::kHostFunction:
    case Opcode::kExternalRecord:
    case Opcode::kRecord:
    case Opcode::kUpdateLaunch:
      return 1;
    case Opcode::kRecordEdge:
      return instruction.edge.done == nullptr ? 0 : 1;
    case Opcode::kExternalWait:
    case Opcode::kWait:
    case Opcode::kWaitEdge:
    case Opcode::kReplay:
    case Opcode::kBeginGroup:
    case Opcode::kEndGroup:
      return 0;
  }
  return 0;
}

}  // namespace reprise::device::cpu
