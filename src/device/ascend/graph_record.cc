#include "device/ascend/graph_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "base/escape_json.h"
#include "base/hash.h"

namespace reprise::device::ascend {
namespace {

std::string_view action_name(GraphRecord::Action action) {
  switch (action) {
    case GraphRecord::Action::kLaunch:
      return "launch";
    case GraphRecord::Action::kCopy:
      return "copy";
    case GraphRecord::Action::kFill:
      return "fill";
    case GraphRecord::Action::kHostFunction:
      return "host_function";
    case GraphRecord::Action::kRecord:
      return "record";
    case GraphRecord::Action::kWait:
      return "wait";
    case GraphRecord::Action::kExternalRecord:
      return "external_record";
    case GraphRecord::Action::kExternalWait:
      return "external_wait";
    case GraphRecord::Action::kBeginGroup:
      return "begin_group";
    case GraphRecord::Action::kEndGroup:
      return "end_group";
  }
  return "unknown";
}

void mix(uint64_t& hash, uint64_t word) { hash = hash_bytes(std::as_bytes(std::span(&word, 1)), hash); }

std::vector<std::string> address_texts(const GraphRecord::Entry& entry) {
  std::vector<std::string> texts;
  for (const uint64_t address : entry.addresses) texts.push_back(fmt::format("@{:x}", address));
  return texts;
}

}  // namespace

std::string GraphRecord::lane_name(uint16_t lane) const {
  const std::string& name = lanes_[lane].name;
  return name.empty() ? fmt::format("stream{}", lane) : name;
}

GraphStatistics GraphRecord::statistics() const {
  GraphStatistics statistics;
  for (const Entry& entry : entries_) {
    switch (entry.action) {
      case Action::kLaunch:
        ++statistics.launches;
        break;
      case Action::kCopy:
        ++statistics.copies;
        break;
      case Action::kFill:
        ++statistics.fills;
        break;
      case Action::kHostFunction:
        ++statistics.host_functions;
        break;
      case Action::kRecord:
      case Action::kExternalRecord:
        ++statistics.records;
        break;
      case Action::kWait:
      case Action::kExternalWait:
        ++statistics.waits;
        break;
      case Action::kBeginGroup:
      case Action::kEndGroup:
        break;
    }
    statistics.bytes += static_cast<int64_t>(sizeof(Entry) + entry.name.size() + 8 * entry.addresses.size());
  }
  statistics.task_groups = groups_;
  statistics.streams = static_cast<int64_t>(lanes_.size());
  return statistics;
}

std::string GraphRecord::to_text() const {
  std::string text;
  const auto out = std::back_inserter(text);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    fmt::format_to(out, "{} {} {}", i, lane_name(entry.lane), action_name(entry.action));
    if (!entry.name.empty()) fmt::format_to(out, " {}", entry.name);
    if (entry.limit != CoreLimit{})
      fmt::format_to(out, " cores={}/{}", entry.limit.matrix_cores, entry.limit.vector_cores);
    if (entry.action != Action::kBeginGroup && entry.action != Action::kEndGroup)
      fmt::format_to(out, " values={:x}", entry.digest);
    if (!entry.addresses.empty()) fmt::format_to(out, " {}", fmt::join(address_texts(entry), " "));
    text += '\n';
  }
  return text;
}

std::string GraphRecord::to_json(const std::string& runtime_dump) const {
  std::string json = "{\"streams\":[";
  const auto out = std::back_inserter(json);
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    fmt::format_to(out, R"({}{{"name":"{}","priority":{}}})", lane == 0 ? "" : ",",
                   escape_json(lane_name(static_cast<uint16_t>(lane))), lanes_[lane].priority);
  }
  json += "],\"actions\":[";
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    fmt::format_to(out, R"({}{{"action":"{}","stream":{},"values":"{:x}")", i == 0 ? "" : ",",
                   action_name(entry.action), entry.lane, entry.digest);
    if (!entry.name.empty()) fmt::format_to(out, R"(,"kernel":"{}")", escape_json(entry.name));
    if (entry.limit != CoreLimit{})
      fmt::format_to(out, R"(,"cores":[{},{}])", entry.limit.matrix_cores, entry.limit.vector_cores);
    if (!entry.addresses.empty())
      fmt::format_to(out, R"(,"addresses":["{}"])", fmt::join(address_texts(entry), "\",\""));
    json += '}';
  }
  json += ']';
  // As a string: it is one of the runtime's formats, not all of which are JSON to the letter.
  if (!runtime_dump.empty()) fmt::format_to(out, R"(,"runtime":"{}")", escape_json(runtime_dump));
  return json + '}';
}

uint64_t GraphRecord::hash(bool with_addresses) const {
  uint64_t hash = kHashStart;
  for (const Lane& lane : lanes_) mix(hash, static_cast<uint64_t>(lane.priority));
  for (const Entry& entry : entries_) {
    mix(hash, static_cast<uint64_t>(entry.action));
    mix(hash, entry.lane);
    hash = hash_text(entry.name, hash);
    mix(hash, entry.digest);
    mix(hash, static_cast<uint64_t>(entry.limit.matrix_cores));
    mix(hash, static_cast<uint64_t>(entry.limit.vector_cores));
    mix(hash, entry.addresses.size());
    if (!with_addresses) continue;
    for (const uint64_t address : entry.addresses) mix(hash, address);
  }
  return hash;
}

}  // namespace reprise::device::ascend
