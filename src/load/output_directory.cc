#include "load/output_directory.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace reprise::load {
namespace {

/// Whether loading a model looks for a file of that name to find its tensors, or how they are stored.
bool is_read_with_weights(const std::string& name) {
  return name == "config.json" || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") ||
         (name.starts_with("quant_model_description") && name.ends_with(".json"));
}

}  // namespace

void check_model_directory(const std::filesystem::path& directory, uint64_t total) {
  if (directory.empty()) throw Error(ErrorCode::kInvalidArgument, "the directory to write has no name");
  std::error_code failure;
  // Where the path will lead once it is made: ".." behind a directory that is not there yet leads back.
  const std::filesystem::path absolute = std::filesystem::absolute(directory);
  std::filesystem::path resolved = std::filesystem::weakly_canonical(absolute, failure);
  if (failure) resolved = absolute;
  // What is there of it already.
  std::filesystem::path present = resolved;
  while (!std::filesystem::exists(present, failure) && present.has_relative_path()) present = present.parent_path();
  if (!std::filesystem::is_directory(present, failure)) {
    throw Error(ErrorCode::kIo, "cannot make the directory {}: {} is none", directory.string(), present.string());
  }
  if (::access(present.c_str(), W_OK | X_OK) != 0) {
    const int reason = errno;
    throw Error(ErrorCode::kIo, "cannot write {}: {}: {}", directory.string(), present.string(), std::strerror(reason));
  }
  if (std::filesystem::is_directory(resolved, failure)) {
    for (const auto& entry : std::filesystem::directory_iterator(resolved)) {
      const std::string name = entry.path().filename().string();
      if (is_read_with_weights(name)) {
        throw Error(ErrorCode::kInvalidArgument, "{} already holds a model: {}", directory.string(), name)
            .remedy("name a new directory, or remove the old model");
      }
    }
  }
  const std::filesystem::space_info space = std::filesystem::space(present, failure);
  if (!failure && space.available < total) {
    throw Error(ErrorCode::kIo, "{} has {} bytes free, but the model takes {}", directory.string(), space.available,
                total);
  }
}

void prepare_model_directory(const std::filesystem::path& directory, uint64_t total) {
  check_model_directory(directory, total);
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) {
    throw Error(ErrorCode::kIo, "cannot make the directory {}: {}", directory.string(), failure.message());
  }
  // Again, now that the path leads where the files will go.
  check_model_directory(directory, total);
}

void write_small_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  stream.close();
  if (!stream) throw Error(ErrorCode::kIo, "cannot write {}", path.string());
}

}  // namespace reprise::load
