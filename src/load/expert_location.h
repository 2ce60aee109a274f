#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace reprise::load {

/// Where the experts of a model shall lie, or what they have had to do, so that they can be placed by it. One of the
/// lists is empty; the other has an entry for each layer of the model (also those without experts).
struct ExpertLocation {
  std::vector<std::vector<int32_t>> physical_to_logical;  ///< of each place of a layer, the expert that it holds
  std::vector<std::vector<int64_t>> logical_count;        ///< of each expert of a layer, how many tokens it has had
};

/// Reads a JSON object with the one key "physical_to_logical_map" or "logical_count", each a list of lists of integers
/// that are not negative. Throws kNotFound, kIo or kCorruptData, with the file's name.
ExpertLocation read_expert_location(const std::filesystem::path& path);

}  // namespace reprise::load
