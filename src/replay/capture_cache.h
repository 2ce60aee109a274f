#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/bound_graph.h"
#include "device/device.h"
#include "ops/update_recorder.h"

namespace reprise::replay {

/// What tells one captured graph of a method from another, such as tokens and sequences: all values that a replay
/// cannot be given anew.
using CaptureKey = std::vector<int64_t>;

/// A kernel chooses otherwise for these host lists than it did at capture, so that its captured launches are wrong.
struct GuardMiss {
  std::string_view op;
  std::string_view choice;
  int64_t captured = 0;
  int64_t now = 0;

  /// "paged_attention: guard (variant == 0) failed: variant = 1".
  std::string to_string() const;
};

struct CaptureOptions {
  /// Nodes of these operators stay outside of the captures, which end in front of each and begin again behind it.
  std::vector<std::string> splitting_ops = {};
  /// What other threads, or the own one, may do during a capture.
  device::CaptureMode mode = device::CaptureMode::kThreadLocal;
};

/// The only owner of captures: captured graphs by key, each with its own update records.
class CaptureCache {
 public:
  /// A captured graph or, in piecewise captures, a node that runs eagerly between two of them.
  struct Piece {
    std::unique_ptr<device::CapturedGraph> graph;
    int64_t node = -1;
    size_t gates = 0;  ///< of the entry's, those that the replay of this graph waits for
  };

  /// What was captured for one key and all that belongs to it.
  struct Entry {
    std::shared_ptr<compile::BoundGraph> bound;  ///< shared with the variants
    /// With replay-then-update: what each task group waits for; one per record.
    std::vector<std::unique_ptr<device::Event>> gates;
    /// With replay-then-update: the end of the last replay, in front of which the next one's updates must not come.
    std::unique_ptr<device::Event> replayed;
    std::vector<ops::UpdateRecord> records;
    std::vector<Piece> pieces;  ///< in order; a single one unless operators split the graph
    double milliseconds = 0;    ///< that the capture took
    device::CoreLimit limit;
    /// The same graph, captured for other choices of its kernels.
    std::vector<std::unique_ptr<Entry>> variants;
    bool update_failed = false;  ///< of this one, not of the variants

    /// An update has failed here or in a variant. Devices refuse to replay what was updated by half: capture it again.
    bool is_broken() const;
    int64_t eager_nodes() const;
    /// Their operators: "28 paged_attention, 28 linear".
    std::string eager_operators() const;
    /// Of all captured pieces.
    int64_t launches() const;
    /// Of all captured pieces.
    size_t bytes() const;
    /// How many cores replays use and why, see CapturedGraph::core_choice(); empty for several pieces.
    std::string core_choice() const;
    std::string to_text() const;
    std::string to_json() const;
  };

  CaptureCache(device::Device& device, device::UpdateOrder order, CaptureOptions options = {});
  ~CaptureCache();

  /// Captures a bound graph under the core limit; `lists` are the host lists that the launches are frozen with until
  /// they are updated. Throws what went wrong; nothing stays behind then, and what the key had before remains.
  Entry& capture(std::span<const int64_t> key, std::unique_ptr<compile::BoundGraph> bound,
                 std::span<const ops::HostList> lists, device::CoreLimit limit = {});
  /// Null when there is none.
  Entry* find(std::span<const int64_t> key);
  /// Destroys what was captured for a key, once its replays have ended; nothing to do where there is none.
  void erase(std::span<const int64_t> key);
  /// Captures a graph beside itself for what its kernels choose for these lists. Throws what went wrong; what was there
  /// remains.
  Entry& capture_variant(Entry& entry, std::span<const ops::HostList> lists);
  /// Plans every update with the step's host lists, applies the updates to the variant that was captured for what the
  /// kernels choose, and queues its replay, in the device's order. Allocates nothing. Where there is no such variant,
  /// nothing is queued, and the first choice that differs from the entry's own is returned. When planning, an update or
  /// a piece fails, its error is thrown; a replay that is queued by then ends, with old lists. DeviceLost when it
  /// cannot end. After an update that failed the entry is_broken().
  [[nodiscard]] std::optional<GuardMiss> replay(Entry& entry, device::Stream& stream,
                                                std::span<const ops::HostList> lists);

 private:
  /// Lets a span look for a key, without a vector made for it.
  struct KeyLess {
    using is_transparent = void;
    bool operator()(std::span<const int64_t> a, std::span<const int64_t> b) const {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
    }
  };

  std::unique_ptr<Entry> capture_graph(std::shared_ptr<compile::BoundGraph> bound, std::span<const ops::HostList> lists,
                                       device::CoreLimit limit);
  void capture_piece(Entry& entry, int64_t first, int64_t last, std::span<const ops::HostList> lists);
  /// The first choice of the last plans that is not the one which the entry was captured with.
  static std::optional<GuardMiss> first_miss(const Entry& entry);
  void update_and_queue(Entry& entry, device::Stream& stream, std::span<const ops::HostList> lists);
  /// Queues every piece; `gates` counts those for which the queued ones wait.
  static void queue(Entry& entry, device::Stream& stream, std::span<const ops::HostList> lists, size_t& gates);
  /// Lets a replay go on that has failed otherwise. DeviceLost when the device does not take it.
  void open_gates(std::span<const std::unique_ptr<device::Event>> gates);

  device::Device& device_;
  device::UpdateOrder order_;
  CaptureOptions options_;
  std::unique_ptr<device::Stream> capture_stream_;
  std::unique_ptr<device::Stream> update_stream_;
  std::map<CaptureKey, std::unique_ptr<Entry>, KeyLess> entries_;
};

}  // namespace reprise::replay
