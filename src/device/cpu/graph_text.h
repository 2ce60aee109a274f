#pragma once

#include <cstdint>
#include <string>

#include "device/cpu/graph_program.h"
#include "device/cpu/memory_map.h"

namespace reprise::device::cpu {

// What can be said of a captured graph. Arguments are opaque to the device: their 8-byte words that are addresses in
// one of its regions of memory count as addresses, everything else as values.

/// One instruction a line.
std::string graph_text(const GraphProgram& program, const MemoryMap& memory);
/// {"streams": [...], "instructions": [...]}, addresses as strings in hexadecimal.
std::string graph_json(const GraphProgram& program, const MemoryMap& memory);
/// Without addresses, host functions count by their place only.
uint64_t graph_hash(const GraphProgram& program, const MemoryMap& memory, bool with_addresses);

}  // namespace reprise::device::cpu
