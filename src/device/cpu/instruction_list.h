#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "device/cpu/instruction.h"

namespace reprise::device::cpu {

/// Bytes at addresses that stay as they are until clear(). Keeps its chunks, so that a list that is filled and cleared
/// again and again allocates nothing.
class ByteArena {
 public:
  /// Uninitialised, aligned to kArgumentAlignment.
  std::byte* take(size_t bytes);
  void clear();
  size_t used() const { return used_; }

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    size_t size;
  };
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0;   ///< the one being filled
  size_t offset_ = 0;  ///< in it
  size_t used_ = 0;
};

/// Instructions in order, with their arguments and with what they refer to.
class InstructionList {
 public:
  Instruction& add(const Instruction& instruction) { return instructions_.emplace_back(instruction); }
  /// Adds a launch (or the update of one) with a copy of its arguments.
  Instruction& add_launch(Instruction instruction, std::span<const std::byte> arguments,
                          std::span<const std::byte> tail);
  /// Keeps an object alive until clear().
  void keep(std::shared_ptr<const void> object) { kept_.push_back(std::move(object)); }
  void clear();
  /// Frees the arguments' memory, for a list whose launches refer to other memory from now on.
  void release_arguments() { arguments_ = ByteArena(); }

  bool empty() const { return instructions_.empty(); }
  size_t size() const { return instructions_.size(); }
  size_t argument_bytes() const { return arguments_.used(); }
  const Instruction& operator[](size_t index) const { return instructions_[index]; }
  Instruction& operator[](size_t index) { return instructions_[index]; }
  std::span<Instruction> instructions() { return instructions_; }
  std::span<const Instruction> instructions() const { return instructions_; }

 private:
  std::vector<Instruction> instructions_;
  ByteArena arguments_;
  std::vector<std::shared_ptr<const void>> kept_;
};

}  // namespace reprise::device::cpu
