#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace reprise {

/// A regular file mapped read-only. Shared by the tensors that point into it; unmapped with the last of them.
class MappedFile {
 public:
  /// Opens and maps a file. Throws kNotFound, or kIo for what is not a readable regular file (directory, FIFO ...).
  static std::shared_ptr<MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  /// When the file was last written, in nanoseconds since 1970, as it was opened.
  int64_t modified_ns() const { return modified_ns_; }
  /// Tells the kernel that a range is not needed again soon, so that its page cache mapping does not count as ours.
  /// What lies beside it within 64 KiB goes as well, and comes back when it is read.
  void release(size_t offset, size_t length) const;

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, size_t size, int64_t modified_ns)
      : path_(std::move(path)), data_(data), size_(size), modified_ns_(modified_ns) {}

  std::filesystem::path path_;
  const std::byte* data_;
  size_t size_;
  int64_t modified_ns_;
};

/// Reads a whole (small) regular file; the same errors as MappedFile::open, and kInvalidArgument above `limit` bytes.
std::string read_file(const std::filesystem::path& path, size_t limit = size_t{1} << 30);

}  // namespace reprise
