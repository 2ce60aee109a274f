#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace reprise::load {

/// A directory of its own for a test, removed afterwards.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "reprise_load_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw Error(ErrorCode::kIo, "cannot make a temporary directory");
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void write_text_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline std::filesystem::path data_directory() { return std::filesystem::path(REPRISE_SOURCE_DIR) / "tests" / "data"; }

/// Where a reference checkpoint is.
inline std::filesystem::path reference_checkpoint(const std::string& name) {
  return data_directory() / "models" / name;
}

/// A safetensors file every field of which may lie: any length, any header, any data.
inline std::string raw_safetensors(std::string_view header, size_t data_bytes, uint64_t length) {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(length >> (8 * i));
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>('a' + i % 26);
  return file;
}
inline std::string raw_safetensors(std::string_view header, size_t data_bytes) {
  return raw_safetensors(header, data_bytes, header.size());
}

/// The error that `work` throws; fails the test when it throws none.
inline Error error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::kInternal, "no error was thrown");
}

}  // namespace reprise::load
