#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace reprise::load {

/// What a writer must know of a tensor before any data comes.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;

  /// Of its data; throws kInvalidArgument for a shape that no file can hold.
  uint64_t bytes() const;
};

/// Writes a safetensors file without holding its tensors: the header is made from the declared list, then the tensors
/// come in any order, whole or in parts. The data goes to `path` + ".partial", which finish() renames; without finish()
/// the destructor removes it, so that a reader never meets half a file. It is locked, so that nobody else writes it at
/// the same time. Larger elements lie first, which keeps every tensor aligned to its element.
class SafetensorsWriter {
 public:
  /// Throws kInvalidArgument for a name declared twice and for a file that another writer is making, kIo when it cannot
  /// be made.
  SafetensorsWriter(std::filesystem::path path, const std::vector<TensorSpec>& tensors,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Writes a whole tensor. Throws kInvalidArgument for an unknown name or a wrong number of bytes, kIo when the system
  /// refuses (a full disk, for one).
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// Writes the part of a tensor that follows what was written of it before.
  void append(std::string_view name, std::span<const std::byte> bytes);
  /// Leaves the rest of a tensor zero: a hole, which takes no room on file systems that have them.
  void leave_empty(std::string_view name);
  /// Closes the file and gives it its name. Throws kFailedPrecondition naming the tensors that are not complete.
  void finish();

  /// The size that the finished file will have.
  uint64_t file_bytes() const { return file_bytes_; }

 private:
  struct Place {
    uint64_t begin = 0;
    uint64_t bytes = 0;
    uint64_t written = 0;
  };
  void create();
  void discard();
  Place& place(std::string_view name);
  void write_at(uint64_t offset, std::span<const std::byte> bytes);

  std::filesystem::path path_;
  std::filesystem::path partial_path_;
  std::map<std::string, Place, std::less<>> places_;
  uint64_t file_bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace reprise::load
