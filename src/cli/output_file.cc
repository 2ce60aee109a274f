#include "cli/output_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace reprise::cli {

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  file_ = std::fopen(path_.c_str(), "w");
  if (file_ == nullptr) fail("create");
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void OutputFile::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail("write");
}

void OutputFile::flush() {
  if (std::fflush(file_) != 0) fail("write");
}

void OutputFile::close() {
  if (file_ == nullptr) return;
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail("write");
}

void OutputFile::fail(const char* doing) const {
  throw Error(ErrorCode::kIo, "cannot {} {}: {}", doing, path_, std::strerror(errno));
}

}  // namespace reprise::cli
