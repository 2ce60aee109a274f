#include "emulator/runtime/validation/replay_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace reprise::emulator {
namespace {

// Of so many replays it is remembered what they used: a device runs no more side by side than it has streams in use.
constexpr size_t kMostRecent = 16;

uint64_t begin_of(const MemoryUse& use) { return reinterpret_cast<uint64_t>(use.address); }
uint64_t end_of(const MemoryUse& use) { return begin_of(use) + use.bytes; }

// Sorted, and touching ranges of one kind made one.
std::vector<MemoryUse> merged(std::vector<MemoryUse> uses) {
  std::sort(uses.begin(), uses.end(), [](const MemoryUse& a, const MemoryUse& b) {
    return std::pair(a.write, begin_of(a)) < std::pair(b.write, begin_of(b));
  });
  std::vector<MemoryUse> result;
  for (const MemoryUse& use : uses) {
    if (!result.empty() && result.back().write == use.write && end_of(result.back()) >= begin_of(use)) {
      result.back().bytes = std::max(end_of(result.back()), end_of(use)) - begin_of(result.back());
    } else {
      result.push_back(use);
    }
  }
  std::sort(result.begin(), result.end(),
            [](const MemoryUse& a, const MemoryUse& b) { return begin_of(a) < begin_of(b); });
  return result;
}

// The first bytes that both use and one of them writes; none: null.
MemoryUse find_conflict(const std::vector<MemoryUse>& a, const std::vector<MemoryUse>& b) {
  size_t first = 0;
  for (const MemoryUse& use : a) {
    while (first < b.size() && end_of(b[first]) <= begin_of(use)) ++first;
    for (size_t i = first; i < b.size() && begin_of(b[i]) < end_of(use); ++i) {
      if (!use.write && !b[i].write) continue;
      if (end_of(b[i]) <= begin_of(use)) continue;
      const uint64_t begin = std::max(begin_of(use), begin_of(b[i]));
      const uint64_t end = std::min(end_of(use), end_of(b[i]));
      return {reinterpret_cast<const void*>(begin), end - begin, true, use.allocation};
    }
  }
  return {};
}

}  // namespace

void ReplayWatch::ended(WatchedReplay replay) {
  replay.uses = merged(std::move(replay.uses));
  for (const WatchedReplay& earlier : recent_) {
    // The earlier one ended first, so the later one cannot be before it; is it behind?
    if (!replay.start.contains(earlier.end)) compare(replay, earlier);
  }
  recent_.push_back(std::move(replay));
  if (recent_.size() > kMostRecent) recent_.pop_front();
}

void ReplayWatch::compare(const WatchedReplay& later, const WatchedReplay& earlier) {
  const MemoryUse conflict = find_conflict(later.uses, earlier.uses);
  if (!conflict.address) return;
  const std::string who = later.graph == earlier.graph
                              ? fmt::format("two replays of graph {}", later.graph)
                              : fmt::format("replays of the graphs {} and {}", later.graph, earlier.graph);
  reporter_.report(Misuse::kPoolShared,
                   fmt::format("{} may run at the same time, and both use {} bytes at {}, which one of them writes",
                               who, conflict.bytes, conflict.address),
                   {{"replayed", later.site}, {"replayed", earlier.site}});
}

}  // namespace reprise::emulator
