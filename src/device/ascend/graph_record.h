#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/captured_graph.h"
#include "device/stream.h"

namespace reprise::device::ascend {

/// What a capture recorded, as the host saw it: the runtime's own form cannot be read on every version.
class GraphRecord {
 public:
  enum class Action : uint8_t {
    kLaunch,
    kCopy,
    kFill,
    kHostFunction,
    kRecord,
    kWait,
    kExternalRecord,
    kExternalWait,
    kBeginGroup,
    kEndGroup,
  };

  struct Entry {
    Action action = Action::kLaunch;
    uint16_t lane = 0;
    std::string name = {};                 ///< of a launch
    uint64_t digest = 0;                   ///< of all that is no address: shapes, host values, bytes, edge numbers
    std::vector<uint64_t> addresses = {};  ///< of memory
    CoreLimit limit = {};                  ///< of a launch
  };

  struct Lane {
    std::string name;
    int priority = 0;
  };

  uint16_t add_lane(const StreamOptions& options) {
    lanes_.push_back({options.name, options.priority});
    return static_cast<uint16_t>(lanes_.size() - 1);
  }
  const std::vector<Lane>& lanes() const { return lanes_; }
  std::string lane_name(uint16_t lane) const;

  /// Returns its index.
  size_t add(Entry entry) {
    entries_.push_back(std::move(entry));
    return entries_.size() - 1;
  }
  const std::vector<Entry>& entries() const { return entries_; }
  /// A task update has replaced a launch.
  void replace(size_t index, Entry entry) { entries_[index] = std::move(entry); }
  void count_group() { ++groups_; }

  GraphStatistics statistics() const;
  std::string to_text() const;
  /// One JSON object; `runtime_dump` is the runtime's own, or empty.
  std::string to_json(const std::string& runtime_dump) const;
  uint64_t hash(bool with_addresses) const;

 private:
  std::vector<Lane> lanes_;
  std::vector<Entry> entries_;
  int64_t groups_ = 0;
};

}  // namespace reprise::device::ascend
