#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace reprise::load {

/// A file that gets its name when it is complete. Until then it has a temporary one beside it ("NAME.NUMBER.partial")
/// and is locked, so that others can tell it from what a killed process has left, which the constructor removes.
class NewFile {
 public:
  /// Makes the directory if there is none. Throws kIo, also when the disk has no room for `bytes`.
  NewFile(std::filesystem::path path, uint64_t bytes);
  /// Removes the file unless it is finished.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// kIo.
  void write(uint64_t offset, std::span<const std::byte> bytes);
  /// Flushes it to the disk and gives it its name; kIo.
  void finish();

 private:
  void remove_leftovers() const;
  void create();
  [[noreturn]] void fail(int reason) const;

  std::filesystem::path path_;
  std::filesystem::path partial_path_;
  int descriptor_ = -1;
};

}  // namespace reprise::load
