#include "device/cpu/thread_choice.h"

#include <fmt/format.h>

#include <limits>

#include "base/median.h"

namespace reprise::device::cpu {
namespace {

/// The first replay finds cold caches; the next ones are observed, and one in so many later on.
constexpr int64_t kFirstObserved = 1;
constexpr int64_t kLastObserved = ThreadChoice::kFirstTrial - 1;
constexpr int64_t kObserveEvery = 256;
/// Graphs that take longer than this are always shared, without a trial: their launches are long, and the team works
/// around threads that do not get their CPU.
constexpr std::chrono::microseconds kLongReplay(2000);
/// Replays between two trials: few where one way is hardly better than the other, as that may change; the fewest behind
/// the first trial, which may have met a machine that was busy for a moment.
constexpr int64_t kReplaysBehindFirst = 256;
constexpr int64_t kReplaysBetween = 1024;
constexpr int64_t kReplaysBetweenClear = 8192;
constexpr float kClear = 1.3f;
/// The other threads must be worth it: they take CPU time that somebody else may want.
constexpr float kWorthwhile = 0.97f;

}  // namespace

SegmentRunner::Options ThreadChoice::begin(int threads, bool comparable) {
  threads_ = threads;
  const int64_t replay = replays_++;
  timed_ = false;
  if (threads == 1) return {};
  if (comparable && replay == next_trial_) trial_ = 0;
  if (in_trial()) {
    timed_ = true;
    begin_ = Clock::now();
    return {.alone = trial_ / kBlock % 2 == 0};
  }
  if (replay >= kFirstObserved && replay <= kLastObserved) {
    timed_ = comparable && replay == kLastObserved;
    if (timed_) begin_ = Clock::now();
    return {.observe = true};
  }
  return {.alone = alone_, .observe = replay % kObserveEvery == 0};
}

void ThreadChoice::end() {
  if (!timed_) return;
  const Clock::duration taken = Clock::now() - begin_;
  if (!in_trial()) {
    if (taken > kLongReplay) next_trial_ = std::numeric_limits<int64_t>::max();
    return;
  }
  const int place = trial_ % kBlock - kSettling;
  const int block = trial_ / kBlock;
  if (place >= 0) {
    Samples& samples = block % 2 == 0 ? alone_seconds_ : shared_seconds_;
    samples[static_cast<size_t>(block / 2 * kCounted + place)] = std::chrono::duration<float>(taken).count();
  }
  if (++trial_ == kTrial) decide();
}

void ThreadChoice::decide() {
  alone_median_ = upper_median(alone_seconds_);
  shared_median_ = upper_median(shared_seconds_);
  alone_ = shared_median_ > kWorthwhile * alone_median_;
  const float ratio = alone_median_ / shared_median_;
  const bool clear = ratio > kClear || ratio < 1 / kClear;
  const bool first = replays_ <= kFirstTrial + kTrial;
  next_trial_ = replays_ + (first ? kReplaysBehindFirst : clear ? kReplaysBetweenClear : kReplaysBetween);
}

std::string ThreadChoice::to_text() const {
  if (shared_median_ == 0) return "";
  return fmt::format("{} of {} threads: {:.1f} us alone, {:.1f} us shared", alone_ ? 1 : threads_, threads_,
                     alone_median_ * 1e6f, shared_median_ * 1e6f);
}

}  // namespace reprise::device::cpu
