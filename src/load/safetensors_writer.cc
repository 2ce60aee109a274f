#include "load/safetensors_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "load/json.h"
#include "load/safetensors_header.h"

namespace reprise::load {
namespace {

constexpr size_t kAlignment = 8;

std::string json_string(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kInvalidArgument, "a name in a safetensors file must be UTF-8");
  }
}

}  // namespace

uint64_t TensorSpec::bytes() const {
  uint64_t total = size_of(dtype);
  for (const Dim& dim : shape) {
    if (dim.value() < 0 || __builtin_mul_overflow(total, static_cast<uint64_t>(dim.value()), &total)) {
      throw Error(ErrorCode::kInvalidArgument, "tensor {} cannot have the shape {}", printable(name),
                  shape.to_string());
    }
  }
  return total;
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, const std::vector<TensorSpec>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(std::move(path)), partial_path_(path_.string() + ".partial") {
  // Put together as text, since a JSON object that keeps its order searches all its keys at each insertion.
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      text += fmt::format("{}{}:{}", text.ends_with('{') ? "" : ",", json_string(key), json_string(value));
    }
    text += "}";
  }
  uint64_t offset = 0;
  const auto place_tensor = [&](const TensorSpec& tensor) {
    const uint64_t bytes = tensor.bytes();
    if (tensor.name == "__metadata__" || !places_.emplace(tensor.name, Place{offset, bytes, 0}).second) {
      throw Error(ErrorCode::kInvalidArgument, "tensor name {} is declared twice or reserved", printable(tensor.name));
    }
    std::vector<int64_t> dims;
    for (const Dim& dim : tensor.shape) dims.push_back(dim.value());
    text += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", text.size() > 1 ? "," : "",
                        json_string(tensor.name), safetensors_name(tensor.dtype), fmt::join(dims, ","), offset,
                        offset + bytes);
    offset += bytes;
  };
  for (const size_t element : {8, 4, 2, 1}) {
    for (const TensorSpec& tensor : tensors) {
      if (size_of(tensor.dtype) == element) place_tensor(tensor);
    }
  }
  text += "}";
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string prefix(8, '\0');
  for (size_t i = 0; i < prefix.size(); ++i) prefix[i] = static_cast<char>(uint64_t{text.size()} >> (8 * i));
  text.insert(0, prefix);
  for (auto& [name, place] : places_) place.begin += text.size();
  file_bytes_ = text.size() + offset;

  // The finished file takes the place of what has its name: that must not be a device or a pipe.
  std::error_code ignored;
  const std::filesystem::file_status present = std::filesystem::status(path_, ignored);
  if (std::filesystem::exists(present) && !std::filesystem::is_regular_file(present)) {
    throw Error(ErrorCode::kIo, "cannot write {}: it exists and is not a regular file", path_.string());
  }
  create();
  try {
    // A killed writer may have left the file.
    if (::ftruncate(descriptor_, 0) != 0) {
      throw Error(ErrorCode::kIo, "cannot write {}: {}", partial_path_.string(), std::strerror(errno));
    }
    write_at(0, std::as_bytes(std::span(text)));
  } catch (...) {
    discard();
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ >= 0) discard();
}

void SafetensorsWriter::create() {
  for (;;) {
    descriptor_ = ::open(partial_path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) {
      throw Error(ErrorCode::kIo, "cannot create {}: {}", partial_path_.string(), std::strerror(errno));
    }
    int locked = 0;
    do locked = ::flock(descriptor_, LOCK_EX | LOCK_NB);
    while (locked != 0 && errno == EINTR);
    // Where the file system has no locks, writers at the same time are the user's to avoid.
    if (locked != 0 && errno == EWOULDBLOCK) {
      ::close(std::exchange(descriptor_, -1));
      throw Error(ErrorCode::kInvalidArgument, "cannot write {}: another writes it", path_.string())
          .remedy("wait until it is done, or name a new place");
    }
    // The file may have become another's finished or discarded one before it was locked.
    struct stat opened{}, present{};
    if (::fstat(descriptor_, &opened) == 0 && ::stat(partial_path_.c_str(), &present) == 0 &&
        opened.st_ino == present.st_ino && opened.st_dev == present.st_dev) {
      return;
    }
    ::close(std::exchange(descriptor_, -1));
  }
}

void SafetensorsWriter::discard() {
  // Before the lock goes: the name may be another's afterwards.
  ::unlink(partial_path_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

SafetensorsWriter::Place& SafetensorsWriter::place(std::string_view name) {
  const auto found = places_.find(name);
  if (found == places_.end()) {
    throw Error(ErrorCode::kInvalidArgument, "tensor {} was not declared for {}", printable(name), path_.string());
  }
  return found->second;
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  const Place& target = place(name);
  if (target.written != 0 || bytes.size() != target.bytes) {
    throw Error(ErrorCode::kInvalidArgument, "tensor {} has {} bytes, {} of them written; {} more do not fit",
                printable(name), target.bytes, target.written, bytes.size());
  }
  append(name, bytes);
}

void SafetensorsWriter::append(std::string_view name, std::span<const std::byte> bytes) {
  if (descriptor_ < 0) throw Error(ErrorCode::kFailedPrecondition, "{} is already finished", path_.string());
  Place& target = place(name);
  if (bytes.size() > target.bytes - target.written) {
    throw Error(ErrorCode::kInvalidArgument, "tensor {} has {} bytes, {} of them written; {} more do not fit",
                printable(name), target.bytes, target.written, bytes.size());
  }
  write_at(target.begin + target.written, bytes);
  target.written += bytes.size();
}

void SafetensorsWriter::leave_empty(std::string_view name) {
  Place& target = place(name);
  target.written = target.bytes;
}

void SafetensorsWriter::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      throw Error(ErrorCode::kIo, "cannot write {}: {}", partial_path_.string(),
                  done < 0 ? std::strerror(errno) : "nothing was written");
    }
    bytes = bytes.subspan(static_cast<size_t>(done));
    offset += static_cast<uint64_t>(done);
  }
}

void SafetensorsWriter::finish() {
  if (descriptor_ < 0) throw Error(ErrorCode::kFailedPrecondition, "{} is already finished", path_.string());
  for (const auto& [name, target] : places_) {
    if (target.written != target.bytes) {
      throw Error(ErrorCode::kFailedPrecondition, "{}: tensor {} has {} bytes, but {} were written", path_.string(),
                  printable(name), target.bytes, target.written);
    }
  }
  // Nothing else makes the file as long as a hole at its end.
  if (::ftruncate(descriptor_, static_cast<off_t>(file_bytes_)) != 0) {
    throw Error(ErrorCode::kIo, "cannot write {}: {}", path_.string(), std::strerror(errno));
  }
  // A network file system may report a full disk only when a descriptor is closed; this one keeps the lock meanwhile.
  const int second = ::dup(descriptor_);
  if (second < 0 || ::close(second) != 0 || ::rename(partial_path_.c_str(), path_.c_str()) != 0) {
    const int failure = errno;
    discard();
    throw Error(ErrorCode::kIo, "cannot write {}: {}", path_.string(), std::strerror(failure));
  }
  ::close(std::exchange(descriptor_, -1));
}

}  // namespace reprise::load
