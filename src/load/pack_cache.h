#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "load/checkpoint.h"

namespace reprise::load {

/// A file that packed weights were made of.
struct PackSource {
  std::string name;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;   ///< when it was last written, since 1970
  uint64_t header_hash = 0;  ///< of its safetensors header: names, types, shapes and places of all tensors
  uint64_t sample_hash = 0;  ///< of samples of its data
  friend bool operator==(const PackSource&, const PackSource&) = default;
};

/// What a pack cache is good for. Every field must be equal.
struct PackIdentity {
  std::string device;   ///< "cpu"
  std::string formats;  ///< of weights of each dtype: "float32 n16, bfloat16 n16k2, int8 n16k4"
  uint64_t layout = 0;  ///< hash of small weights packed by this program on this device, whatever a format is called
  std::string dtype;    ///< of the computation
  std::vector<PackSource> sources;
};

/// The files of a checkpoint, as they were when they were opened. Samples of each file's data are read: all of it up to
/// 2 MiB; above that 512 pages spread over it, and one in the middle of up to 1024 of its tensors (of each, if there
/// are not more). So a file whose time of writing was kept or set back is told from the old one by whatever replaces
/// its tensors, not by every change of a few bytes.
std::vector<PackSource> pack_sources(const Checkpoint& checkpoint);

/// Where the cache of a model (a directory or a .safetensors file) lies: in `directory`, under the model's name with a
/// hash of its path, or, when that is "", beside the model. Device and dtype are part of the name, so that the caches
/// of several do not take each other's place.
std::filesystem::path pack_cache_path(const std::filesystem::path& model, const std::filesystem::path& directory,
                                      std::string_view device, std::string_view dtype);

/// One piece of memory with packed weights.
struct PackEntry {
  std::string name;      ///< of the first weight in it
  uint64_t content = 0;  ///< hash of which tensors it was made of, in which form
  uint64_t bytes = 0;
};

/// A file with the packed weights of a model, mapped. Checked are the file's length, a checksum of its header, every
/// field of the identity, that all entries lie within the file, and of each entry a checksum of up to 16 pages spread
/// over it (all of it up to 64 KiB). Damage between those pages goes unseen: all weights would have to be read for it,
/// which is what mapping them saves. Immutable; threads may share it.
class PackCache {
 public:
  static constexpr uint32_t kVersion = 2;

  /// Throws kNotFound, kIo, kCorruptData (damaged or cut) or kFailedPrecondition (made by another version, for another
  /// device or dtype, or of other files); the message says what differs, without the file's name.
  static PackCache open(const std::filesystem::path& path, const PackIdentity& identity);

  /// Empty when there is no such piece.
  std::span<const std::byte> find(const PackEntry& entry) const;
  const std::shared_ptr<const MappedFile>& file() const { return file_; }

 private:
  struct Place {
    PackEntry entry;
    uint64_t offset = 0;
  };
  explicit PackCache(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}

  std::shared_ptr<const MappedFile> file_;
  std::vector<Place> places_;  ///< sorted by name
};

/// Copies `to.size()` bytes of entry `index` from `offset` on. Called more than once for some.
using PackReader = std::function<void(size_t index, uint64_t offset, std::span<std::byte> to)>;

/// Writes a cache under a temporary name, flushes it to the disk and renames it: a reader meets the old file or the new
/// one, whoever else writes at the same time. What writers that were killed have left is removed. Throws kIo.
void write_pack_cache(const std::filesystem::path& path, const PackIdentity& identity,
                      std::span<const PackEntry> entries, const PackReader& read);

}  // namespace reprise::load
