#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace reprise::device {

/// How the streams of a capture hang together. A stream is joined when another one has waited for a record that has
/// none of its work behind it. Joining its waits, too, makes the relation reach the origin over several streams. Lane 0
/// is the stream that began the capture. Not thread-safe.
class CaptureJoins {
 public:
  /// A stream takes part from here on; the first one is the origin.
  void add_lane() { lanes_.emplace_back(); }
  /// A launch, a copy ... on a lane.
  void add_work(uint16_t lane) { ++lanes_[lane].work; }
  /// An event is recorded on a lane; yields the number of the record.
  uint32_t record(uint16_t lane);
  /// The number that record() gives next.
  uint32_t next_record() const { return static_cast<uint32_t>(records_.size()); }
  /// A lane waits for a record.
  void wait(uint16_t lane, uint32_t record);
  /// What keeps the capture from being whole: kCaptureUnjoined for a stream whose work nobody has waited for, then
  /// kCaptureDependency for one whose last wait nobody has. `name_of` says what to call a lane.
  std::optional<Error> find_unjoined(const std::function<std::string(uint16_t lane)>& name_of) const;

 private:
  struct Lane {
    int64_t work = 0;          ///< so far
    int64_t waits = 0;         ///< so far
    int64_t joined_work = -1;  ///< how much of it another stream has waited for; -1: none ever
    int64_t joined_waits = -1;
  };
  /// A record, with what its lane had done by then.
  struct Record {
    uint16_t lane;
    int64_t work;
    int64_t waits;
  };

  std::vector<Lane> lanes_;
  std::vector<Record> records_;
};

}  // namespace reprise::device
