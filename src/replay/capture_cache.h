#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
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
  /// A captured graph or, in piecewise captures, a node that runs eagerly between two of them.
  struct Piece {
    std::unique_ptr<device::CapturedGraph> graph;
    int64_t node = -1;
  };

  /// What was captured for one key and all that belongs to it.
  struct Entry {
    std::unique_ptr<compile::BoundGraph> bound;
    /// With replay-then-update: what each task group waits for; one per record.
    std::vector<std::unique_ptr<device::Event>> gates;
    std::vector<ops::UpdateRecord> records;
    std::vector<Piece> pieces;  ///< in order; a single one unless operators split the graph
    double milliseconds = 0;    ///< that the capture took

    int64_t eager_nodes() const;
    /// Of all captured pieces.
    size_t bytes() const;
    std::string to_text() const;
    std::string to_json() const;
  };

  /// Nodes of the operators in `splitting_ops` stay outside of the captures, which end in front of each and begin again
  /// behind it.
  CaptureCache(device::Device& device, device::UpdateOrder order, std::vector<std::string> splitting_ops = {},
               device::CaptureMode mode = device::CaptureMode::kThreadLocal);
  ~CaptureCache();

  /// Captures a bound graph; `lists` are the host lists that the launches are frozen with until they are updated.
  /// Throws what went wrong; nothing stays behind then.
  Entry& capture(CaptureKey key, std::unique_ptr<compile::BoundGraph> bound, std::span<const ops::HostList> lists);
  /// Null when there is none.
  Entry* find(CaptureKey key);
  /// Applies every update record with the step's host lists and queues the replay, in the device's order. Allocates
  /// nothing. When an update fails, its error is thrown; a replay that is queued by then ends, with old lists.
  void replay(Entry& entry, device::Stream& stream, std::span<const ops::HostList> lists);

 private:
  void capture_piece(Entry& entry, int64_t first, int64_t last, std::span<const ops::HostList> lists);
  /// Queues every piece.
  static void queue(Entry& entry, device::Stream& stream, std::span<const ops::HostList> lists);

  device::Device& device_;
  device::UpdateOrder order_;
  std::vector<std::string> splitting_ops_;
  device::CaptureMode mode_;
  std::unique_ptr<device::Stream> capture_stream_;
  std::unique_ptr<device::Stream> update_stream_;
  std::map<CaptureKey, std::unique_ptr<Entry>> entries_;
};

}  // namespace reprise::replay
