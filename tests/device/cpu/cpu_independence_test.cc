// Launches of captured graphs that say what memory they use, and run at the same time where nothing speaks against it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/launch_accesses.h"

namespace reprise::device::cpu {
namespace {

CpuStream& independent_stream(Stream& stream) { return dynamic_cast<CpuStream&>(stream); }

// ---- which launches are independent

std::byte test_memory[256];
MemoryAccess reads(size_t first, size_t last) { return {test_memory + first, last - first, false}; }
MemoryAccess writes(size_t first, size_t last) { return {test_memory + first, last - first, true}; }

struct Pair {
  const char* name;
  std::vector<MemoryAccess> first;
  std::vector<MemoryAccess> second;
  bool independent;
};

class LaunchPairs : public testing::TestWithParam<Pair> {};

TEST_P(LaunchPairs, AreIndependentWhenNeitherUsesWhatTheOtherWrites) {
  std::vector<Instruction> instructions(2, Instruction(Opcode::kLaunch));
  LaunchAccesses accesses;
  if (!GetParam().first.empty()) accesses.add(0, GetParam().first);
  if (!GetParam().second.empty()) accesses.add(1, GetParam().second);
  accesses.mark_independent(instructions);
  EXPECT_EQ(instructions[0].independent, GetParam().independent ? 2 : 0);
  EXPECT_EQ(instructions[1].independent, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Accesses, LaunchPairs,
    testing::Values(Pair{"BothReadTheSame", {reads(0, 64), writes(64, 80)}, {reads(0, 64), writes(80, 96)}, true},
                    Pair{"TheSecondReadsWhatTheFirstWrites", {writes(0, 64)}, {reads(0, 64), writes(64, 80)}, false},
                    Pair{"TheSecondReadsALastByte", {writes(0, 64)}, {reads(63, 70)}, false},
                    Pair{"TheSecondReadsBehindIt", {writes(0, 64)}, {reads(64, 70)}, true},
                    Pair{"TheSecondReadsBeforeIt", {writes(8, 64)}, {reads(0, 8)}, true},
                    Pair{"TheSecondWritesWhatTheFirstReads", {reads(0, 64)}, {writes(32, 33)}, false},
                    Pair{"BothWriteOneByte", {writes(0, 33)}, {writes(32, 64)}, false},
                    Pair{"OneIsInsideTheOther", {writes(0, 64)}, {reads(8, 16)}, false},
                    Pair{"NothingIsKnownOfTheFirst", {}, {reads(0, 1)}, false},
                    Pair{"NothingIsKnownOfTheSecond", {reads(0, 1)}, {}, false}),
    [](const auto& pair) { return pair.param.name; });

TEST(LaunchAccesses, ARunEndsAtTheFirstLaunchThatNeedsOneOfItAndAtOtherInstructions) {
  std::vector<Instruction> instructions(7, Instruction(Opcode::kLaunch));
  instructions[2] = Instruction(Opcode::kWaitEdge);  // does nothing
  instructions[2].edge = {nullptr, 0};
  instructions[5] = Instruction(Opcode::kHostFunction);
  LaunchAccesses accesses;
  accesses.add(0, std::vector{writes(0, 8)});
  accesses.add(1, std::vector{writes(8, 16)});
  accesses.add(3, std::vector{writes(16, 24)});
  accesses.add(4, std::vector{reads(0, 8), writes(24, 32)});
  accesses.add(6, std::vector{writes(32, 40)});
  accesses.mark_independent(instructions);
  std::vector<int> runs;
  for (const Instruction& instruction : instructions) runs.push_back(instruction.independent);
  EXPECT_EQ(runs, (std::vector{4, 0, 0, 0, 0, 0, 0}));
}

// ---- and how they run

class IndependentLaunches : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Device> device_ = create_cpu_device({.threads = GetParam(), .discrete = false});
  std::unique_ptr<Stream> stream_ = device_->create_stream();
};

TEST_P(IndependentLaunches, RunAtTheSameTime) {
  if (GetParam() == 1) return;
  // Each of two launches of one tile waits for the other one to begin, though not for ever.
  struct Arguments {
    std::atomic<int>* begun;
    std::atomic<int>* met;
  };
  static constexpr Kernel kMeet{"meet", [](const void* arguments, int64_t, int64_t) {
                                  const auto& a = *static_cast<const Arguments*>(arguments);
                                  ++*a.begun;
                                  const auto give_up_at =
                                      std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
                                  while (*a.begun % 2 != 0 && std::chrono::steady_clock::now() < give_up_at)
                                    std::this_thread::yield();
                                  if (*a.begun % 2 == 0) ++*a.met;
                                }};
  std::atomic<int> begun = 0;
  std::atomic<int> met = 0;
  const Arguments arguments{&begun, &met};
  const auto meetings = [&](bool overlap) {
    stream_->begin_capture(CaptureMode::kThreadLocal);
    for (const size_t place : {size_t{0}, size_t{8}}) {
      const MemoryAccess access = overlap ? writes(0, 8) : writes(place, place + 8);
      stream_->declare_accesses({&access, 1});
      independent_stream(*stream_).launch(kMeet, 1, arguments);
    }
    const auto graph = stream_->end_capture();
    int together = 0;
    // Somebody who is called may come late.
    for (int replay = 0; replay < 100 && together == 0; ++replay) {
      begun = met = 0;
      graph->replay(*stream_);
      stream_->synchronize();
      EXPECT_EQ(begun, 2);
      together = met == 2 ? 1 : 0;
      if (overlap && replay == 3) break;
    }
    return together;
  };
  EXPECT_EQ(meetings(false), 1);
  EXPECT_EQ(meetings(true), 0);
}

/// cells[to + t] = the sum of [from, from + count) * 3 + t, for each tile t.
struct SumArguments {
  int64_t* cells;
  int64_t from;
  int64_t count;
  int64_t to;
};
void sum_cells(const void* arguments, int64_t first, int64_t last) {
  const auto& a = *static_cast<const SumArguments*>(arguments);
  const int64_t sum = std::accumulate(a.cells + a.from, a.cells + a.from + a.count, int64_t{0}) % 100003;
  for (int64_t t = first; t < last; ++t) a.cells[a.to + t] = sum * 3 + t;
}
constexpr Kernel kSum{"sum", sum_cells};

TEST_P(IndependentLaunches, GiveWhatTheyGiveOneAfterTheOther) {
  // Launches that read and write at random, so that about every second one depends on one of the three before it; a few
  // do not say what they use, and a few are on another stream.
  constexpr int64_t kCells = 64;
  constexpr int kLaunches = 150;
  std::mt19937 random(7);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  std::vector<int64_t> cells(kCells);
  std::iota(cells.begin(), cells.end(), 0);
  std::vector<int64_t> expected = cells;
  std::vector<SumArguments> launches;
  std::vector<int64_t> tiles;
  const auto side = device_->create_stream();
  const auto fork = device_->create_event();
  const auto join = device_->create_event();
  stream_->begin_capture(CaptureMode::kThreadLocal);
  while (launches.size() < kLaunches) {
    const int64_t count = 1 + below(6);
    const int64_t writes_count = 1 + below(6);
    const SumArguments a{cells.data(), below(kCells - count), count, below(kCells - writes_count)};
    if (a.from < a.to + writes_count && a.to < a.from + count) continue;  // its own tiles would disturb each other
    const bool on_side = launches.size() % 10 == 9;
    Stream& stream = on_side ? *side : *stream_;
    if (on_side) {
      stream_->record(*fork);
      side->wait(*fork);
    }
    const MemoryAccess accesses[] = {{cells.data() + a.from, static_cast<size_t>(count) * 8, false},
                                     {cells.data() + a.to, static_cast<size_t>(writes_count) * 8, true}};
    if (launches.size() % 7 != 3) stream.declare_accesses(accesses);
    independent_stream(stream).launch(kSum, writes_count, a);
    stream.declare_accesses({});
    if (on_side) {
      side->record(*join);
      stream_->wait(*join);
    }
    launches.push_back(a);
    tiles.push_back(writes_count);
  }
  const auto graph = stream_->end_capture();
  for (int replay = 0; replay < 60; ++replay) {
    graph->replay(*stream_);
    stream_->synchronize();
    for (size_t i = 0; i < launches.size(); ++i) {
      SumArguments a = launches[i];
      a.cells = expected.data();
      sum_cells(&a, 0, tiles[i]);
    }
    ASSERT_EQ(cells, expected) << replay;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, IndependentLaunches, testing::Values(1, 2, 5), testing::PrintToStringParamName());

}  // namespace
}  // namespace reprise::device::cpu
