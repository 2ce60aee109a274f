#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "load/safetensors_header.h"

// Parses arbitrary bytes as a whole safetensors file. Only reprise::Error may come out, and what is accepted must lie
// inside the file and cover its data.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const reprise::load::SafetensorsHeader header = reprise::load::parse_safetensors_header(file, "fuzz.safetensors");
    size_t end = header.data_begin;
    for (const reprise::load::HeaderEntry& entry : header.entries) {
      const auto bytes = static_cast<size_t>(entry.shape.elements()) * reprise::size_of(entry.dtype);
      if (entry.begin != end || entry.end - entry.begin != bytes) std::abort();
      end = entry.end;
    }
    if (end != size) std::abort();
  } catch (const reprise::Error&) {
    // A refusal is the right answer to most inputs.
  }
  return 0;
}
