#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace reprise {
namespace {

/// Which limit a failed call ran into, if any.
ErrorCode code_of(int reason) {
  switch (reason) {
    case ENOENT:
      return ErrorCode::kNotFound;
    case ENOMEM:
      return ErrorCode::kOutOfMemory;
    case EMFILE:
    case ENFILE:
      return ErrorCode::kResourceExhausted;
    default:
      return ErrorCode::kIo;
  }
}

/// Opens a regular file and tells what it is. O_NONBLOCK keeps a FIFO without a writer from blocking the open.
int open_regular(const std::filesystem::path& path, struct stat& status) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int reason = errno;
    throw Error(code_of(reason), "cannot open {}: {}", path.string(), std::strerror(reason));
  }
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw Error(ErrorCode::kIo, "{} is not a regular file", path.string());
  }
  return descriptor;
}

}  // namespace

std::shared_ptr<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  struct stat status{};
  const int descriptor = open_regular(path, status);
  const auto size = static_cast<size_t>(status.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  }
  const int reason = errno;
  ::close(descriptor);
  if (data == MAP_FAILED) throw Error(code_of(reason), "cannot map {}: {}", path.string(), std::strerror(reason));
  const int64_t modified_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return std::shared_ptr<MappedFile>(new MappedFile(path, static_cast<const std::byte*>(data), size, modified_ns));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(size_t offset, size_t length) const {
  if (data_ == nullptr || length == 0) return;
  // The kernel maps what lies around a page that is read in windows of so many bytes.
  constexpr uintptr_t kWindow = 64 << 10;
  const auto begin = reinterpret_cast<uintptr_t>(data_);
  const uintptr_t first = std::max(begin, (begin + offset) / kWindow * kWindow);
  const uintptr_t last = std::min(begin + size_, (begin + offset + length + kWindow - 1) / kWindow * kWindow);
  ::madvise(const_cast<std::byte*>(data_) + (first - begin), last - first, MADV_DONTNEED);
}

std::string read_file(const std::filesystem::path& path, size_t limit) {
  struct stat status{};
  const int descriptor = open_regular(path, status);
  const auto size = static_cast<size_t>(status.st_size);
  if (size > limit) {
    ::close(descriptor);
    throw Error(ErrorCode::kInvalidArgument, "{} has {} bytes, more than the {} allowed here", path.string(), size,
                limit);
  }
  std::string content(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(descriptor, content.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  ::close(descriptor);
  if (done != size)
    throw Error(ErrorCode::kIo, "cannot read {}: it ended after {} of {} bytes", path.string(), done, size);
  return content;
}

}  // namespace reprise
