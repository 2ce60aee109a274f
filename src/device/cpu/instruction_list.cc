#include "device/cpu/instruction_list.h"

#include <algorithm>
#include <cstring>

namespace reprise::device::cpu {
namespace {

constexpr size_t kChunkBytes = 64 * 1024;
/// new[] of std::byte is aligned to this, and so is every piece that is a multiple of it long.
static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= kArgumentAlignment);

}  // namespace

std::byte* ByteArena::take(size_t bytes) {
  bytes = (bytes + kArgumentAlignment - 1) / kArgumentAlignment * kArgumentAlignment;
  while (chunk_ < chunks_.size() && offset_ + bytes > chunks_[chunk_].size) {
    ++chunk_;
    offset_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    const size_t size = std::max(bytes, kChunkBytes);
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
    offset_ = 0;
  }
  std::byte* place = chunks_[chunk_].bytes.get() + offset_;
  offset_ += bytes;
  used_ += bytes;
  return place;
}

void ByteArena::clear() {
  chunk_ = 0;
  offset_ = 0;
  used_ = 0;
}

Instruction& InstructionList::add_launch(Instruction instruction, std::span<const std::byte> arguments,
                                         std::span<const std::byte> tail) {
  instruction.argument_bytes = static_cast<uint32_t>(arguments.size());
  instruction.tail_bytes = static_cast<uint32_t>(tail.size());
  std::byte* block = arguments_.take(block_bytes(arguments.size(), tail.size()));
  if (!arguments.empty()) std::memcpy(block, arguments.data(), arguments.size());
  if (!tail.empty()) std::memcpy(block + tail_offset(arguments.size()), tail.data(), tail.size());
  // Launches and updates both begin with the launch's operands.
  LaunchOperands& operands =
      instruction.opcode == Opcode::kUpdateLaunch ? instruction.update.launch : instruction.launch;
  operands.arguments = block;
  return instructions_.emplace_back(instruction);
}

void InstructionList::clear() {
  instructions_.clear();
  arguments_.clear();
  kept_.clear();
}

}  // namespace reprise::device::cpu
