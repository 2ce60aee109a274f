#include "base/thread_team.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/error.h"

namespace reprise {
namespace {

/// (threads, CPUs it believes in): alone, two that may spin, five on too few CPUs, five that spin although they should
/// not.
class ThreadTeamSizes : public testing::TestWithParam<std::pair<int, int>> {
 protected:
  ThreadTeam team_{GetParam().first, GetParam().second};
};

TEST_P(ThreadTeamSizes, EachChunkIsDoneOnce) {
  for (const int chunks : {0, 1, 2, 3, 7, 64, ThreadTeam::kMaxChunks}) {
    std::vector<int> calls(static_cast<size_t>(chunks));
    for (int round = 0; round < 20; ++round) {
      team_.share(team_.size(), chunks, [&](int first, int last) {
        for (int i = first; i < last; ++i) ++calls[static_cast<size_t>(i)];
      });
    }
    EXPECT_EQ(std::count(calls.begin(), calls.end(), 20), chunks);
  }
}

TEST_P(ThreadTeamSizes, WhatOneJobWroteTheNextOneSees) {
  // Each round, every chunk sums what all wrote in the round before: work that is not waited for shows as a wrong sum.
  constexpr int kChunks = 12;
  std::vector<int64_t> values(kChunks, 1);
  std::vector<int64_t> sums(kChunks);
  int64_t expected = 1;
  for (int round = 0; round < 300; ++round) {
    team_.share(team_.size(), kChunks, [&](int first, int last) {
      for (int i = first; i < last; ++i) {
        int64_t sum = 0;
        for (const int64_t value : values) sum += value;
        sums[static_cast<size_t>(i)] = sum % 1000003;
      }
    });
    team_.share(team_.size(), kChunks, [&](int first, int last) {
      for (int i = first; i < last; ++i) values[static_cast<size_t>(i)] = sums[static_cast<size_t>(i)] + 1;
    });
    expected = expected * kChunks % 1000003 + 1;
  }
  for (const int64_t value : values) EXPECT_EQ(value, expected);
}

TEST_P(ThreadTeamSizes, NoMoreMembersTakePartThanAskedFor) {
  for (int members = 1; members <= team_.size(); ++members) {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    for (int round = 0; round < 30; ++round) {
      team_.share(members, 64, [&](int, int) {
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      });
    }
    EXPECT_LE(threads.size(), static_cast<size_t>(members));
  }
}

TEST_P(ThreadTeamSizes, MembersShareWorkThatTakesTime) {
  // The caller's first chunk does not end before somebody else has begun one. A member that is called may come late, or
  // not at all when the machine is busy: then the job is tried again.
  if (team_.size() == 1) return;
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::atomic<bool> helped = false;
    const std::thread::id caller = std::this_thread::get_id();
    team_.share(team_.size(), 2 * team_.size(), [&](int, int) {
      if (std::this_thread::get_id() != caller) helped = true;
      const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      while (!helped && std::chrono::steady_clock::now() < give_up_at) std::this_thread::yield();
    });
    if (helped) return;
  }
  FAIL() << "nobody came to help in 100 jobs";
}

TEST_P(ThreadTeamSizes, AMemberThatDoesNotComeIsNotWaitedFor) {
  // All others are busy in a chunk of another job's function until the caller has done all the rest by itself.
  std::atomic<int> done = 0;
  constexpr int kChunks = 40;
  const std::thread::id caller = std::this_thread::get_id();
  team_.share(team_.size(), kChunks, [&](int first, int last) {
    if (std::this_thread::get_id() != caller) {
      const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (done < kChunks - (team_.size() - 1) && std::chrono::steady_clock::now() < give_up_at)
        std::this_thread::yield();
      EXPECT_GE(done, kChunks - (team_.size() - 1)) << "the others' chunks were left to those who hold one";
    }
    done += last - first;
  });
  EXPECT_EQ(done, kChunks);
}

TEST_P(ThreadTeamSizes, AnExceptionReachesTheCallerAndTheTeamWorksOn) {
  for (int thrower = 0; thrower < 10; ++thrower) {
    try {
      team_.share(team_.size(), 10, [&](int first, int last) {
        if (first <= thrower && thrower < last) throw std::runtime_error("chunk " + std::to_string(thrower));
      });
      FAIL() << "the exception of chunk " << thrower << " was lost";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "chunk " + std::to_string(thrower));
    }
    std::atomic<int> chunks = 0;
    team_.share(team_.size(), 10, [&](int first, int last) { chunks += last - first; });
    EXPECT_EQ(chunks, 10);
  }
}

TEST_P(ThreadTeamSizes, OneOfManyExceptionsReachesTheCaller) {
  const auto fail = [](int first, int) { throw std::runtime_error(std::to_string(first)); };
  for (int i = 0; i < 5; ++i) EXPECT_THROW(team_.share(team_.size(), 20, fail), std::runtime_error);
}

TEST_P(ThreadTeamSizes, SleepersAreCalledAgain) {
  std::atomic<int> chunks = 0;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (int job = 0; job < 3; ++job)
      team_.share(team_.size(), 8, [&](int first, int last) { chunks += last - first; });
  }
  EXPECT_EQ(chunks, 5 * 3 * 8);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadTeamSizes,
                         testing::Values(std::pair(1, 1), std::pair(2, 2), std::pair(5, 1), std::pair(5, 5)),
                         [](const auto& sizes) {
                           return std::to_string(sizes.param.first) + "On" + std::to_string(sizes.param.second);
                         });

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need the address space that is taken here
TEST(ThreadTeamDeathTest, ThreadsThatTheSystemRefusesAreAnErrorAndNotTheEnd) {
  const auto start_too_many = [] {
    // Every thread's stack takes address space.
    const rlimit limit = {size_t{1} << 30, size_t{1} << 30};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    try {
      const ThreadTeam team(4000, 2);
    } catch (const Error& error) {
      ::_exit(error.code() == ErrorCode::kResourceExhausted ? 0 : 3);
    }
    ::_exit(4);
  };
  EXPECT_EXIT(start_too_many(), testing::ExitedWithCode(0), "");
}
#endif

TEST(ThreadTeam, RefusesAbsurdSizesBeforeTheyTakeMemory) {
  for (const int threads : {1 << 16, 1 << 20, std::numeric_limits<int>::max()}) {
    try {
      const ThreadTeam team(threads, 1);
      ADD_FAILURE() << threads;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << threads;
    }
  }
}

TEST(ThreadTeam, ALongStallIsSoonForgotten) {
  // A process that is stopped, or a machine that sleeps, looks like a member that took that long for a chunk.
  ThreadTeam team(2, 2);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> helped = false;
  const auto try_to_share = [&](std::chrono::milliseconds stall) {
    team.share(2, 8, [&](int, int) {
      if (std::this_thread::get_id() != caller) {
        if (!helped.exchange(true)) std::this_thread::sleep_for(stall);
      } else if (!helped) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  };
  for (int i = 0; i < 100 && !helped; ++i) try_to_share(std::chrono::milliseconds(1500));
  ASSERT_TRUE(helped);
  helped = false;
  const auto begin = std::chrono::steady_clock::now();
  while (!helped && std::chrono::steady_clock::now() - begin < std::chrono::seconds(5)) try_to_share({});
  // Four times the stall would be six seconds.
  EXPECT_TRUE(helped);
}

}  // namespace
}  // namespace reprise
