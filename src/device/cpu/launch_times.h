#pragma once

#include <array>
#include <cstdint>

#include "device/cpu/instruction.h"

namespace reprise::device::cpu {

/// How long launches take that are no part of a captured graph: eager code makes the same ones again and again. They
/// are told apart by kernel, tiles and sizes; a table of fixed size keeps those that were made last.
class LaunchTimes {
 public:
  struct Entry {
    uint64_t key = 0;
    uint32_t launches = 0;
    float tile_nanoseconds = 0;  ///< see Instruction::tile_nanoseconds
  };

  /// What is known of a launch like this one; to be updated by the caller.
  Entry& find(const Instruction& launch);

 private:
  static uint64_t key_of(const Instruction& launch);

  std::array<Entry, 512> entries_;
};

}  // namespace reprise::device::cpu
