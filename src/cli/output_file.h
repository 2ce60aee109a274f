#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace reprise::cli {

/// A text file being written. Every failure, also that of the last flush, is an error that names the file.
class OutputFile {
 public:
  /// Creates or empties the file; kIo.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);
  /// Hands what was written to the system.
  void flush();
  /// Must be called at the end, because a destructor cannot report.
  void close();

 private:
  [[noreturn]] void fail(const char* doing) const;

  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace reprise::cli
