#include "emulator/runtime/record_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace reprise::emulator {

Status RecordFile::open(const char* path) {
  reset();
  path_ = path;
  file_ = std::fopen(path, "a");
  if (file_) return {};
  return {ACL_ERROR_INVALID_PARAM, fmt::format("{}: cannot write '{}'", variable_, path)};
}

void RecordFile::open_standard_error() {
  reset();
  path_ = "standard error";
  file_ = stderr;
}

void RecordFile::reset() {
  close();
  status_ = {};
}

void RecordFile::close() {
  std::FILE* file = std::exchange(file_, nullptr);
  if (file && file != stderr && std::fclose(file) != 0) fail(errno);
}

void RecordFile::write(std::string_view text) {
  if (!file_) return;
  errno = 0;
  const bool good = std::fwrite(text.data(), 1, text.size(), file_) == text.size();
  if (std::fflush(file_) != 0 || !good) fail(errno);
}

void RecordFile::fail(int error) {
  if (!status_.ok()) return;
  status_ = Status(ACL_ERROR_INVALID_PARAM,
                   fmt::format("{}: cannot write '{}' to its end: {}", variable_, path_, std::strerror(error)));
  std::fprintf(stderr, "%s\n", status_.text.c_str());
}

}  // namespace reprise::emulator
