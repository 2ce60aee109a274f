#include "device/capture_joins.h"

#include <algorithm>

namespace reprise::device {

uint32_t CaptureJoins::record(uint16_t lane) {
  const uint32_t number = next_record();
  records_.push_back({lane, lanes_[lane].work, lanes_[lane].waits});
  return number;
}

void CaptureJoins::wait(uint16_t lane, uint32_t record) {
  const Record& reached = records_[record];
  if (reached.lane == lane) return;
  ++lanes_[lane].waits;
  Lane& recorded = lanes_[reached.lane];
  recorded.joined_work = std::max(recorded.joined_work, reached.work);
  recorded.joined_waits = std::max(recorded.joined_waits, reached.waits);
}

std::optional<Error> CaptureJoins::find_unjoined(const std::function<std::string(uint16_t lane)>& name_of) const {
  for (size_t i = 1; i < lanes_.size(); ++i) {
    if (lanes_[i].joined_work == lanes_[i].work) continue;
    return Error(ErrorCode::kCaptureUnjoined, "stream {} took part in the capture and was not joined",
                 name_of(static_cast<uint16_t>(i)))
        .remedy("record an event after its last work and let the capturing stream wait for it");
  }
  for (size_t i = 1; i < lanes_.size(); ++i) {
    if (lanes_[i].joined_waits == lanes_[i].waits) continue;
    return Error(ErrorCode::kCaptureDependency, "stream {} waits for an event and is not joined after that",
                 name_of(static_cast<uint16_t>(i)));
  }
  return std::nullopt;
}

}  // namespace reprise::device
