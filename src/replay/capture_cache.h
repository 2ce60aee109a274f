#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "compile/bound_graph.h"
#include "device/device.h"
#include "ops/update_recorder.h"

namespace reprise::replay {

/// What tells one captured graph of a method from another.
struct CaptureKey {
  int32_t tokens = 0;
  int32_t sequences = 0;
  friend auto operator<=>(const CaptureKey&, const CaptureKey&) = default;
};

/// The only owner of captures: captured graphs by key, each with its own update records.
class CaptureCache {
 public:
  /// One captured graph and all that belongs to it.
  struct Entry {
    std::unique_ptr<compile::BoundGraph> bound;
    /// With replay-then-update: what each task group waits for; one per record.
    std::vector<std::unique_ptr<device::Event>> gates;
    std::vector<ops::UpdateRecord> records;
    std::unique_ptr<device::CapturedGraph> graph;
    double milliseconds = 0;  ///< that the capture took
  };

  CaptureCache(device::Device& device, device::UpdateOrder order);
  ~CaptureCache();

  /// Captures a bound graph; `lists` are the host lists that the launches are frozen with until they are updated.
  /// Throws what went wrong; nothing stays behind then.
  Entry& capture(CaptureKey key, std::unique_ptr<compile::BoundGraph> bound, std::span<const ops::HostList> lists);
  /// Null when there is none.
  Entry* find(CaptureKey key);
  /// Applies every update record with the step's host lists and queues the replay, in the device's order. Allocates
  /// nothing. When an update fails, its error is thrown; a replay that is queued by then ends, with old lists.
  void replay(Entry& entry, device::Stream& stream, std::span<const ops::HostList> lists);

  /// Bytes of all captured graphs.
  size_t bytes() const;
  int64_t updates() const { return updates_; }

 private:
  device::Device& device_;
  device::UpdateOrder order_;
  std::unique_ptr<device::Stream> capture_stream_;
  std::unique_ptr<device::Stream> update_stream_;
  std::map<CaptureKey, std::unique_ptr<Entry>> entries_;
  int64_t updates_ = 0;
};

}  // namespace reprise::replay
