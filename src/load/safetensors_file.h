#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace reprise::load {

/// A tensor in a mapped file. `bytes` are row-major, little-endian and of any alignment (see load/convert.h); they stay
/// valid as long as `owner` is held.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const MappedFile> owner;

  /// Gives back the pages behind a part of `bytes` that is not needed again soon, see MappedFile::release().
  void release(std::span<const std::byte> part) const;
};

/// A safetensors file, mapped. Opening checks every field of the header (see load/safetensors_header.h) and reads no
/// tensor data. Immutable afterwards, so threads may share it.
class SafetensorsFile {
 public:
  /// Throws kNotFound, kIo, kCorruptData or kUnsupported; the message names the file.
  static SafetensorsFile open(const std::filesystem::path& path);

  /// In the order of their data in the file.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// Null when the file has no such tensor.
  const StoredTensor* find(std::string_view name) const;
  /// Throws kNotFound, naming the tensor and the file.
  const StoredTensor& at(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return file_->path(); }
  const std::shared_ptr<const MappedFile>& file() const { return file_; }

 private:
  explicit SafetensorsFile(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}

  std::shared_ptr<const MappedFile> file_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace reprise::load
