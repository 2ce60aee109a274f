#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace reprise::load {

/// That a directory for a model of `total` bytes can be made, without making it: the same errors as far as they can be
/// known before.
void check_model_directory(const std::filesystem::path& directory, uint64_t total);

/// Makes a directory for a model of `total` bytes. Throws kInvalidArgument where a model is already, kIo when it cannot
/// be made or its disk has not enough room.
void prepare_model_directory(const std::filesystem::path& directory, uint64_t total);

/// Writes a whole text file; kIo naming it.
void write_small_file(const std::filesystem::path& path, const std::string& text);

}  // namespace reprise::load
