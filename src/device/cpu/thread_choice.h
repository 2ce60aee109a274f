#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "device/cpu/segment_runner.h"

namespace reprise::device::cpu {

/// Whether a captured graph is replayed by all threads or by one. A graph of short launches may be faster alone, and
/// which it is depends on what else the machine does: so now and then some replays are done in both ways in turn, and
/// the faster one is taken until the next trial. Results do not depend on it.
class ThreadChoice {
 public:
  /// Replays before the first trial.
  static constexpr int64_t kFirstTrial = 5;

  /// How the replay that begins is run. `threads`: of the team; `comparable`: it waits for nothing outside, so that its
  /// time says something.
  SegmentRunner::Options begin(int threads, bool comparable);
  void end();

  /// "1 of 2 threads: 61.2 us alone, 75.3 us shared"; empty as long as there was nothing to choose.
  std::string to_text() const;

 private:
  using Clock = std::chrono::steady_clock;

  /// A trial: blocks of replays, alone and shared in turn. The first ones of a block find the caches as the block
  /// before left them, and the other threads asleep or about to be: they do not count.
  static constexpr int kBlock = 12;
  static constexpr int kSettling = 6;
  static constexpr int kBlocks = 6;
  static constexpr int kTrial = kBlock * kBlocks;
  static constexpr int kCounted = kBlock - kSettling;  ///< of a block
  static constexpr size_t kSamples = kBlocks / 2 * kCounted;
  using Samples = std::array<float, kSamples>;

  bool in_trial() const { return trial_ < kTrial; }
  void decide();

  int threads_ = 1;
  bool alone_ = false;
  bool timed_ = false;                ///< the running replay
  int64_t replays_ = 0;               ///< begun so far
  int64_t next_trial_ = kFirstTrial;  ///< the replay with which it begins
  int trial_ = kTrial;                ///< replays of the running trial that have ended
  Clock::time_point begin_{};         ///< of the running replay
  Samples alone_seconds_{};
  Samples shared_seconds_{};
  float alone_median_ = 0;  ///< of the last trial; 0: there was none
  float shared_median_ = 0;
};

}  // namespace reprise::device::cpu
