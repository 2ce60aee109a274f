#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::device {

/// What capturing a list of batch sizes would take.
struct CaptureDemand {
  std::vector<int32_t> sizes;   ///< ascending
  int64_t graphs = 1;           ///< captured for each size: 1, or the pieces of a graph that is cut
  int64_t streams = 1;          ///< that take part in each of them
  int64_t actions = 0;          ///< launches, copies, events in the largest of them; 0: not known
  int64_t external_events = 0;  ///< of each size, in all its graphs
};

/// What of it a device can hold.
struct CaptureBudget {
  std::vector<int32_t> sizes;  ///< ascending; the largest is that of the demand
  /// The formula with its numbers, for people: "at most 28 of 67 sizes: ...". Empty where the device has no such limit.
  std::string text;
};

}  // namespace reprise::device
