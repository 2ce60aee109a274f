// A file that grows while the program runs: the trace, the reports of the validation layer.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "emulator/runtime/status.h"

namespace reprise::emulator {

/// Every write is at once in the file, so that nothing is lost when the program ends badly. What cannot be written is
/// told on standard error when it happens, and by status() afterwards. Not synchronised.
class RecordFile {
 public:
  /// `variable` of the environment names the file; a static text.
  explicit RecordFile(const char* variable) : variable_(variable) {}
  ~RecordFile() { close(); }
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  /// For appending. 100000 when that cannot be.
  Status open(const char* path);
  /// Standard error.
  void open_standard_error();
  void close();
  bool is_open() const { return file_ != nullptr; }
  void write(std::string_view text);
  /// Closes it and forgets what could not be written.
  void reset();
  /// 100000 once something could not be written.
  const Status& status() const { return status_; }

 private:
  void fail(int error);

  const char* variable_;
  std::string path_;
  std::FILE* file_ = nullptr;
  Status status_;
};

}  // namespace reprise::emulator
