#include "load/new_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>

#include "base/error.h"

namespace reprise::load {
namespace {

constexpr const char* kPartialSuffix = ".partial";

}  // namespace

NewFile::NewFile(std::filesystem::path path, uint64_t bytes) : path_(std::move(path)) {
  const std::filesystem::path directory = path_.parent_path();
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) {
    throw Error(ErrorCode::kIo, "cannot make the directory {}: {}", directory.string(), failure.message());
  }
  remove_leftovers();
  const std::filesystem::space_info space = std::filesystem::space(directory, failure);
  if (!failure && space.available < bytes) {
    throw Error(ErrorCode::kIo, "{} has {} bytes free, but {} takes {}", directory.string(), space.available,
                path_.filename().string(), bytes);
  }
  create();
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  ::unlink(partial_path_.c_str());
  ::close(descriptor_);
}

void NewFile::fail(int reason) const {
  throw Error(ErrorCode::kIo, "cannot write {}: {}", path_.string(), std::strerror(reason));
}

void NewFile::remove_leftovers() const {
  const std::string start = path_.filename().string() + ".";
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(path_.parent_path(), failure)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start) || !name.ends_with(kPartialSuffix)) continue;
    const int descriptor = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) continue;
    // Whoever writes it still holds the lock.
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
    ::close(descriptor);
  }
}

void NewFile::create() {
  std::random_device random;
  for (;;) {
    partial_path_ = fmt::format("{}.{:08x}{}", path_.string(), random(), kPartialSuffix);
    // Who may read it is for the user to say, whose umask applies.
    descriptor_ = ::open(partial_path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == EEXIST) continue;
    if (descriptor_ < 0) fail(errno);
    // Where the file system has no locks, others cannot lock what is left there either, and do not remove it.
    while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
    // Another writer may have taken the file for a leftover before it was locked.
    struct stat status{};
    if (::fstat(descriptor_, &status) != 0 || status.st_nlink > 0) return;
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

void NewFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail(done < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(done));
    offset += static_cast<uint64_t>(done);
  }
}

void NewFile::finish() {
  // Packed weights are not looked at when they are mapped: after a crash the name must not be there without them.
  if (::fsync(descriptor_) != 0) fail(errno);
  if (::rename(partial_path_.c_str(), path_.c_str()) != 0) fail(errno);
  ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace reprise::load
