#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "device/cpu/kernel.h"

namespace reprise::device::cpu {

class EventState;
struct GroupLaunch;
class GraphProgram;

/// What an instruction does. Streams' queues and captured graphs hold the same instructions; the two kinds of event
/// instructions differ, because a queue refers to events and a graph to its own edges.
enum class Opcode : uint8_t {
  kLaunch,
  kCopy,
  kFill,
  kHostFunction,
  kExternalRecord,
  kExternalWait,
  // In queues only.
  kRecord,
  kWait,
  kReplay,
  kUpdateLaunch,
  // In captured graphs only.
  kRecordEdge,
  kWaitEdge,
  kBeginGroup,
  kEndGroup,
};

std::string_view name_of(Opcode opcode);

struct LaunchOperands {
  const Kernel* kernel;
  const std::byte* arguments;  ///< argument_bytes, then at the next multiple of 8 tail_bytes
  int64_t tiles;
};

struct CopyOperands {
  void* destination;
  const void* source;
  size_t bytes;
};

struct FillOperands {
  void* destination;
  size_t bytes;
  unsigned char value;
};

struct HostFunctionOperands {
  void (*function)(void* data);
  void* data;
};

struct EventOperands {
  EventState* event;
  uint64_t ticket;  ///< which record of an ordinary event
};

struct EdgeOperands {
  uint8_t* done;  ///< where the record is noted; null when the program's order makes that unnecessary
  uint32_t edge;
};

struct ReplayOperands {
  GraphProgram* program;
};

/// A launch that takes the place of one in a captured graph.
struct UpdateOperands {
  LaunchOperands launch;
  GroupLaunch* target;
};

/// One typed instruction: plain data. What its pointers refer to is kept alive by the list that holds it.
struct Instruction {
  Opcode opcode;
  uint16_t lane = 0;            ///< in captured graphs: which of the captured streams
  uint16_t threads = 0;         ///< the most threads that may share it; 0: all
  uint32_t argument_bytes = 0;  ///< of launches
  uint32_t tail_bytes = 0;
  /// Of launches in captured graphs: how long one thread takes for a tile, as replays have shown; 0: not known yet.
  float tile_nanoseconds = 0;
  /// Of launches in captured graphs: so many instructions from here on hold launches of which none uses what another
  /// one writes, and nothing else that does anything. 0: not known.
  uint16_t independent = 0;
  uint16_t label = 0;  ///< see Stream::annotate()
  union {
    LaunchOperands launch;
    CopyOperands copy;
    FillOperands fill;
    HostFunctionOperands host;
    EventOperands event;
    EdgeOperands edge;
    ReplayOperands replay;
    UpdateOperands update;
  };

  explicit Instruction(Opcode code) : opcode(code), update() {}
};

/// Distance from the arguments to their tail.
constexpr size_t tail_offset(size_t argument_bytes) { return (argument_bytes + 7) / 8 * 8; }
/// Size of arguments and tail as one block.
constexpr size_t block_bytes(size_t argument_bytes, size_t tail_bytes) {
  return tail_bytes == 0 ? argument_bytes : tail_offset(argument_bytes) + tail_bytes;
}
/// Alignment of argument blocks.
constexpr size_t kArgumentAlignment = 16;

/// Threads that share an instruction when `threads` are there; 0 when it does nothing by itself.
int width_of(const Instruction& instruction, int threads);

}  // namespace reprise::device::cpu
