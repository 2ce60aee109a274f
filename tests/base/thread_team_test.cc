#include "base/thread_team.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <numeric>
#include <stdexcept>

#include "base/error.h"

namespace reprise {
namespace {

/// (threads, CPUs it believes in): alone, two that may spin, five on too few CPUs, five that spin although they should
/// not.
class ThreadTeamSizes : public testing::TestWithParam<std::pair<int, int>> {
 protected:
  ThreadTeam team_{GetParam().first, GetParam().second};
};

TEST_P(ThreadTeamSizes, EveryMemberRunsOncePerRun) {
  std::vector<int> calls(static_cast<size_t>(team_.size()));
  for (int run = 0; run < 200; ++run) team_.run([&](int member) { ++calls[static_cast<size_t>(member)]; });
  for (const int count : calls) EXPECT_EQ(count, 200);
}

TEST_P(ThreadTeamSizes, TheCallerIsMemberZero) {
  std::thread::id zero;
  team_.run([&](int member) {
    if (member == 0) zero = std::this_thread::get_id();
  });
  EXPECT_EQ(zero, std::this_thread::get_id());
}

TEST_P(ThreadTeamSizes, BarrierPublishesWhatMembersWrote) {
  // Each round, every member sums what all wrote in the round before: a missing barrier shows as a wrong sum.
  const size_t size = static_cast<size_t>(team_.size());
  std::vector<int64_t> values(size, 1);
  std::vector<int64_t> sums(size);
  team_.run([&](int member) {
    for (int round = 0; round < 30; ++round) {
      int64_t sum = 0;
      for (const int64_t value : values) sum += value;
      sums[static_cast<size_t>(member)] = sum % 1000003;
      team_.barrier();
      values[static_cast<size_t>(member)] = sums[static_cast<size_t>(member)] + 1;
      team_.barrier();
    }
  });
  int64_t expected = 1;
  for (int round = 0; round < 30; ++round) expected = expected * team_.size() % 1000003 + 1;
  for (const int64_t value : values) EXPECT_EQ(value, expected);
}

TEST_P(ThreadTeamSizes, RunsOfFewerMembersLeaveTheOthersOut) {
  for (int run = 0; run < 100; ++run) {
    const int members = 1 + run % team_.size();
    std::atomic<int> calls = 0;
    team_.run(members, [&](int member) {
      EXPECT_LT(member, members);
      team_.barrier();
      ++calls;
    });
    EXPECT_EQ(calls, members);
  }
}

TEST_P(ThreadTeamSizes, AnExceptionReachesTheCallerWhileOthersWaitInABarrier) {
  for (int thrower = 0; thrower < team_.size(); ++thrower) {
    const auto body = [&](int member) {
      team_.barrier();
      if (member == thrower) throw std::runtime_error("member " + std::to_string(member));
      for (int i = 0; i < 100; ++i) team_.barrier();
    };
    try {
      team_.run(body);
      FAIL() << "the exception of member " << thrower << " was lost";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "member " + std::to_string(thrower));
    }
    // The team works as before.
    std::atomic<int> calls = 0;
    team_.run([&](int) {
      team_.barrier();
      ++calls;
      team_.barrier();
    });
    EXPECT_EQ(calls, team_.size());
  }
}

TEST_P(ThreadTeamSizes, OneOfManyExceptionsReachesTheCaller) {
  EXPECT_THROW(team_.run([](int member) { throw std::runtime_error(std::to_string(member)); }), std::runtime_error);
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

TEST(ThreadTeam, RefusesAbsurdSizes) { EXPECT_ANY_THROW(ThreadTeam(1 << 20, 1)); }

}  // namespace
}  // namespace reprise
