#include "emulator/runtime/profile.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace reprise::emulator {
namespace {

// Core counts, memory and bandwidth are the vendor's published figures for the Atlas 800T A2 class of cards.
Profile profile_910b3() {
  Profile profile;
  profile.name = "910B3";
  profile.soc = "Ascend910B3";
  profile.npu_arch = 2201;
  profile.devices = 8;
  profile.cube_cores = 20;
  profile.vector_cores = 40;
  profile.memory_bytes = uint64_t{64} << 30;
  profile.l2_bytes = uint64_t{192} << 20;
  profile.ubuf_bytes = 192 << 10;
  return profile;
}

// An inference card: fewer cores, slower memory, a driver without the newer parts.
Profile profile_310p() {
  Profile profile;
  profile.name = "310P";
  profile.soc = "Ascend310P3";
  profile.npu_arch = 2002;
  profile.cube_cores = 8;
  profile.vector_cores = 7;
  profile.memory_bytes = uint64_t{24} << 30;
  profile.l2_bytes = uint64_t{16} << 20;
  profile.ubuf_bytes = 256 << 10;
  profile.streams = 1024;
  profile.events = 1023;
  profile.version[0] = 1;
  profile.version[1] = 15;
  profile.features.software_sq = false;
  profile.timing.memory_bandwidth = 204.8e9;
  profile.timing.copy_bandwidth = 12.0e9;
  profile.timing.cube_rate = 35.0e12;
  return profile;
}

// Core counts of this one are not published as a table; these are the order of magnitude.
Profile profile_950() {
  Profile profile;
  profile.name = "950";
  profile.soc = "Ascend950PR_9589";
  profile.npu_arch = 3510;
  profile.cube_cores = 32;
  profile.vector_cores = 64;
  profile.memory_bytes = uint64_t{128} << 30;
  profile.memory_slack = 0;
  profile.l2_bytes = uint64_t{128} << 20;
  profile.ubuf_bytes = 256 << 10;
  profile.timing.cube_rate = 250.0e12;
  return profile;
}

std::optional<Profile> built_in(std::string_view name) {
  if (name == "910B3") return profile_910b3();
  if (name == "310P") return profile_310p();
  if (name == "950") return profile_950();
  return std::nullopt;
}

struct Setter {
  std::function<void(Profile&, double)> set;
  double least = 0;
  double most = 0;
  bool whole = true;  // a count
};

constexpr double kMostCount = 1 << 30;
// Twice the memory of each device is reserved as address space, of which a process has 2^47 bytes.
constexpr double kMostBytes = 0x1p44;

template <typename T>
Setter number(T Profile::* member, double least = 0, double most = kMostCount) {
  return {[member](Profile& profile, double value) { profile.*member = static_cast<T>(value); }, least, most};
}
template <typename T>
Setter bytes(T Profile::* member, double least = 0) {
  return number(member, least, kMostBytes);
}
Setter version(size_t part) {
  return {[part](Profile& profile, double value) { profile.version[part] = static_cast<int32_t>(value); }, 0,
          kMostCount};
}
Setter feature(bool Features::* member) {
  return {[member](Profile& profile, double value) { profile.features.*member = value != 0; }, 0, 1};
}
Setter seconds(double Timing::* member) {
  return {[member](Profile& profile, double value) { profile.timing.*member = value; }, 0, 1, false};
}
// Of something a second.
Setter rate(double Timing::* member) {
  return {[member](Profile& profile, double value) { profile.timing.*member = value; }, 1, 1e30, false};
}

const std::map<std::string, Setter, std::less<>>& setters() {
  static const auto* table = new std::map<std::string, Setter, std::less<>>{
      {"npu_arch", number(&Profile::npu_arch)},
      {"devices", number(&Profile::devices, 0, 64)},
      {"aicpu_cores", number(&Profile::aicpu_cores, 1)},
      {"cube_cores", number(&Profile::cube_cores, 1)},
      {"vector_cores", number(&Profile::vector_cores, 1)},
      {"memory_bytes", bytes(&Profile::memory_bytes, 1 << 20)},
      {"memory_taken", bytes(&Profile::memory_taken)},
      {"memory_slack", bytes(&Profile::memory_slack)},
      {"l2_bytes", bytes(&Profile::l2_bytes, 1)},
      {"ubuf_bytes", bytes(&Profile::ubuf_bytes, 1)},
      {"streams", number(&Profile::streams)},
      {"events", number(&Profile::events)},
      {"notifies", number(&Profile::notifies)},
      {"models", number(&Profile::models)},
      {"queue_depth", number(&Profile::queue_depth, 1)},
      {"queue_reserve", number(&Profile::queue_reserve)},
      {"software_queues", number(&Profile::software_queues)},
      {"kernel_timeout_ms", number(&Profile::kernel_timeout_ms, 1)},
      {"destroy_timeout_ms", number(&Profile::destroy_timeout_ms)},
      {"version_major", version(0)},
      {"version_minor", version(1)},
      {"version_patch", version(2)},
      {"graphs", feature(&Features::graphs)},
      {"task_groups", feature(&Features::task_groups)},
      {"value_wait", feature(&Features::value_wait)},
      {"software_sq", feature(&Features::software_sq)},
      {"host_launch", seconds(&Timing::host_launch)},
      {"host_operator", seconds(&Timing::host_operator)},
      {"host_call", seconds(&Timing::host_call)},
      {"host_replay", seconds(&Timing::host_replay)},
      {"kernel_start", seconds(&Timing::kernel_start)},
      {"graph_kernel_start", seconds(&Timing::graph_kernel_start)},
      {"task", seconds(&Timing::task)},
      {"memory_bandwidth", rate(&Timing::memory_bandwidth)},
      {"copy_bandwidth", rate(&Timing::copy_bandwidth)},
      {"cube_rate", rate(&Timing::cube_rate)},
  };
  return *table;
}

Status refuse(std::string text) { return Status(ACL_ERROR_INVALID_PARAM, std::move(text)); }

Status set(Profile& profile, std::string_view key, double value) {
  const auto setter = setters().find(key);
  if (setter == setters().end()) return refuse(fmt::format("a profile has no '{}'", key));
  const Setter& it = setter->second;
  // Written so that a NaN is refused too.
  if (!(value >= it.least && value <= it.most) || (it.whole && value != std::floor(value))) {
    return refuse(fmt::format("'{}' of a profile cannot be {}: expected {} from {} to {}", key, value,
                              it.whole ? "a whole number" : "a number", it.least, it.most));
  }
  it.set(profile, value);
  return {};
}

Status read_file(const std::string& path, Profile& profile) {
  std::ifstream file(path);
  if (!file) return refuse(fmt::format("'{}' is neither a profile (910B3, 310P, 950) nor a file", path));
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  } catch (const std::ios_base::failure& error) {  // of the stream's buffer: a directory, a disk that fails
    return refuse(fmt::format("'{}' cannot be read: {}", path, error.what()));
  }
  if (!document.is_object()) return refuse(fmt::format("'{}' is not a JSON object", path));
  const auto base = document.find("base");
  const std::optional<Profile> start = built_in(
      base == document.end() || !base->is_string() ? std::string_view("910B3") : base->get_ref<const std::string&>());
  if (!start) return refuse(fmt::format("'{}': no profile has the name in 'base'", path));
  profile = *start;
  for (const auto& [key, value] : document.items()) {
    if (key == "base") continue;
    if (key == "name" && value.is_string()) {
      profile.name = value.get<std::string>();
    } else if (key == "soc" && value.is_string()) {
      profile.soc = value.get<std::string>();
    } else if (value.is_number() || value.is_boolean()) {
      const double number = value.is_boolean() ? (value.get<bool>() ? 1.0 : 0.0) : value.get<double>();
      if (Status status = set(profile, key, number); !status.ok()) return status;
    } else {
      return refuse(fmt::format("'{}': '{}' is neither a number nor a boolean", path, key));
    }
  }
  return {};
}

}  // namespace

Status Profile::parse(std::string_view text, Profile& profile) {
  size_t comma = std::min(text.find(','), text.size());
  const std::string_view name = text.substr(0, comma);
  if (const std::optional<Profile> known = built_in(name)) {
    profile = *known;
  } else if (Status status = read_file(std::string(name), profile); !status.ok()) {
    return status;
  }
  while (comma < text.size()) {
    text.remove_prefix(comma + 1);
    comma = std::min(text.find(','), text.size());
    const std::string_view change = text.substr(0, comma);
    const size_t equals = change.find('=');
    double value = 0;
    if (equals == std::string_view::npos) return refuse(fmt::format("'{}' in a profile is not key=value", change));
    const char* begin = change.data() + equals + 1;
    const char* end = change.data() + change.size();
    const auto [rest, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || rest != end) return refuse(fmt::format("'{}' in a profile is not a number", change));
    if (Status status = set(profile, change.substr(0, equals), value); !status.ok()) return status;
  }
  return {};
}

Status Profile::from_environment(Profile& profile) {
  const char* text = std::getenv("REPRISE_ACL_PROFILE");
  Status status = parse(text && *text ? text : "910B3", profile);
  if (!status.ok()) status.text.insert(0, "REPRISE_ACL_PROFILE: ");
  return status;
}

}  // namespace reprise::emulator
