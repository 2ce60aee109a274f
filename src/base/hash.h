#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace reprise {

/// The start of a hash over several pieces.
inline constexpr uint64_t kHashStart = 14695981039346656037u;

/// 64 bits of FNV-1a (Fowler, Noll, Vo): equal on every machine, good against accidents and not against intent. `start`
/// continues a hash.
constexpr uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t start = kHashStart) {
  uint64_t hash = start;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 1099511628211u;
  return hash;
}
constexpr uint64_t hash_text(std::string_view text, uint64_t start = kHashStart) {
  uint64_t hash = start;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  return hash;
}

}  // namespace reprise
