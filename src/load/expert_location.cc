#include "load/expert_location.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "load/json.h"

namespace reprise::load {
namespace {

template <typename Number>
std::vector<std::vector<Number>> read_lists(const nlohmann::json& lists, const std::string& what) {
  if (!lists.is_array()) throw Error(ErrorCode::kCorruptData, "{} is {}, not a list of layers", what, describe(lists));
  std::vector<std::vector<Number>> result;
  for (const nlohmann::json& list : lists) {
    const size_t layer = result.size();
    if (!list.is_array()) {
      throw Error(ErrorCode::kCorruptData, "{}: layer {} is {}, not a list", what, layer, describe(list));
    }
    std::vector<Number>& numbers = result.emplace_back();
    for (const nlohmann::json& number : list) {
      constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<Number>::max());
      if (!number.is_number_unsigned() || number.get<uint64_t>() > kLargest) {
        throw Error(ErrorCode::kCorruptData, "{}: layer {}[{}] is {}, not a number from 0 to {}", what, layer,
                    numbers.size(), describe(number), kLargest);
      }
      numbers.push_back(number.get<Number>());
    }
  }
  return result;
}

}  // namespace

ExpertLocation read_expert_location(const std::filesystem::path& path) {
  const std::string name = path.string();
  const nlohmann::json json = parse_json(read_file(path), name);
  constexpr const char* kMap = "physical_to_logical_map";
  constexpr const char* kCount = "logical_count";
  if (!json.is_object() || json.size() != 1 || (!json.contains(kMap) && !json.contains(kCount))) {
    throw Error(ErrorCode::kCorruptData, "{} is not an object with the one key \"{}\" or \"{}\"", name, kMap, kCount);
  }
  ExpertLocation location;
  if (json.contains(kMap)) {
    location.physical_to_logical = read_lists<int32_t>(json[kMap], name + ": " + kMap);
  } else {
    location.logical_count = read_lists<int64_t>(json[kCount], name + ": " + kCount);
  }
  return location;
}

}  // namespace reprise::load
