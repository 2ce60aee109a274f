// Which launches are shared between threads, into how many chunks, and whether a graph is shared at all.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "device/cpu/launch_times.h"
#include "device/cpu/segment_runner.h"
#include "device/cpu/thread_choice.h"

namespace reprise::device::cpu {
namespace {

constexpr Kernel kNothing{"nothing", [](const void*, int64_t, int64_t) {}};

Instruction launch_of(int64_t tiles, float tile_nanoseconds) {
  Instruction instruction(Opcode::kLaunch);
  instruction.launch = {&kNothing, nullptr, tiles};
  instruction.tile_nanoseconds = tile_nanoseconds;
  return instruction;
}

TEST(SegmentRunner, CutsLaunchesByWhatTheyAreKnownToTake) {
  const auto chunks = [](int64_t tiles, float nanoseconds, int threads) {
    return SegmentRunner::chunks_of(launch_of(tiles, nanoseconds), threads);
  };
  EXPECT_EQ(chunks(100, 1000, 1), 1);
  // Nothing is known.
  EXPECT_EQ(chunks(100, 0, 2), 8);
  EXPECT_EQ(chunks(3, 0, 2), 3);
  EXPECT_EQ(chunks(1, 0, 2), 1);
  // 100 or 400 ns are done before another thread hears of them, 2 us are halved, and what is longer is cut more finely,
  // but not without end, and never below a tile.
  EXPECT_EQ(chunks(4, 25, 2), 1);
  EXPECT_EQ(chunks(4, 100, 2), 1);
  EXPECT_EQ(chunks(20, 100, 2), 2);
  EXPECT_EQ(chunks(300, 120, 2), 6);
  EXPECT_EQ(chunks(1000, 1000, 2), 16);
  EXPECT_EQ(chunks(1000, 1000, 4), 32);
  EXPECT_EQ(chunks(3, 1e6, 2), 3);
  // Short tiles stay together.
  EXPECT_EQ(chunks(32, 1500, 2), 8);
  EXPECT_EQ(chunks(2, 1000, 2), 2);
}

TEST(LaunchTimes, TellLaunchesApartByKernelTilesAndSizesButNotByAddresses) {
  struct Arguments {
    const void* address;
    int64_t size;
  };
  static constexpr Kernel kOther{"other", [](const void*, int64_t, int64_t) {}};
  int here = 0;
  const auto made = [&](const Kernel& kernel, int64_t tiles, const Arguments& arguments) {
    Instruction instruction(Opcode::kLaunch);
    instruction.launch = {&kernel, reinterpret_cast<const std::byte*>(&arguments), tiles};
    instruction.argument_bytes = sizeof(arguments);
    return instruction;
  };
  LaunchTimes times;
  const Arguments first{&here, 64};
  const Arguments elsewhere{&times, 64};
  const Arguments larger{&here, 65};
  times.find(made(kNothing, 4, first)).tile_nanoseconds = 17;
  EXPECT_EQ(times.find(made(kNothing, 4, elsewhere)).tile_nanoseconds, 17);
  EXPECT_EQ(times.find(made(kNothing, 4, elsewhere)).launches, 3u);
  EXPECT_EQ(times.find(made(kNothing, 4, larger)).tile_nanoseconds, 0);
  EXPECT_EQ(times.find(made(kNothing, 5, first)).tile_nanoseconds, 0);
  EXPECT_EQ(times.find(made(kOther, 4, first)).tile_nanoseconds, 0);
}

/// Replays that take one time alone and another one shared.
class ReplayTimes {
 public:
  ReplayTimes(std::chrono::microseconds alone, std::chrono::microseconds shared) : alone_(alone), shared_(shared) {}

  SegmentRunner::Options replay(bool comparable = true) {
    const SegmentRunner::Options options = choice_.begin(2, comparable);
    const auto end = std::chrono::steady_clock::now() + (options.alone ? alone_ : shared_);
    while (std::chrono::steady_clock::now() < end) {
    }
    choice_.end();
    return options;
  }
  /// How many of as many replays are done alone.
  int count_alone(int replays, bool comparable = true) {
    int alone = 0;
    for (int i = 0; i < replays; ++i) alone += replay(comparable).alone ? 1 : 0;
    return alone;
  }
  std::string text() const { return choice_.to_text(); }

 private:
  std::chrono::microseconds alone_;
  std::chrono::microseconds shared_;
  ThreadChoice choice_;
};

constexpr int kUntilChosen = 80;

TEST(ThreadChoice, TakesOneThreadWhereSharingIsSlower) {
  ReplayTimes times(std::chrono::microseconds(30), std::chrono::microseconds(60));
  times.count_alone(kUntilChosen);
  EXPECT_EQ(times.count_alone(50), 50);
  EXPECT_EQ(times.text().substr(0, 15), "1 of 2 threads:");
}

TEST(ThreadChoice, TakesAllThreadsWhereThatIsFaster) {
  ReplayTimes times(std::chrono::microseconds(60), std::chrono::microseconds(30));
  EXPECT_EQ(times.text(), "");
  times.count_alone(kUntilChosen);
  EXPECT_EQ(times.count_alone(50), 0);
  EXPECT_EQ(times.text().substr(0, 15), "2 of 2 threads:");
}

TEST(ThreadChoice, TriesAgainLater) {
  ReplayTimes times(std::chrono::microseconds(5), std::chrono::microseconds(10));
  times.count_alone(kUntilChosen);
  const int replays = 600;
  EXPECT_LT(times.count_alone(replays), replays);
}

TEST(ThreadChoice, DoesNotTryLongReplaysOrThoseThatWaitForOthers) {
  ReplayTimes lasting(std::chrono::microseconds(1), std::chrono::microseconds(2100));
  EXPECT_EQ(lasting.count_alone(100), 0);
  ReplayTimes waiting(std::chrono::microseconds(1), std::chrono::microseconds(2));
  EXPECT_EQ(waiting.count_alone(200, false), 0);
}

TEST(ThreadChoice, ObservesAFewReplaysAtFirstAndThenOneNowAndThen) {
  ReplayTimes times(std::chrono::microseconds(1), std::chrono::microseconds(1));
  int observed = 0;
  for (int i = 0; i < 600; ++i) observed += times.replay(false).observe ? 1 : 0;
  EXPECT_GE(observed, 5);
  EXPECT_LE(observed, 8);
}

}  // namespace
}  // namespace reprise::device::cpu
