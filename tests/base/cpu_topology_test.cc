#include "base/cpu_topology.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>

namespace reprise {
namespace {

/// A made-up machine of 64 CPUs in a temporary directory.
class FakeMachine : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    sources_.root = std::filesystem::path(testing::TempDir()) / ("cpu_topology_" + std::string(info->name()));
    std::filesystem::remove_all(sources_.root);
    sources_.host_cpus = 64;
    sources_.affinity_cpus = 64;
  }
  void TearDown() override { std::filesystem::remove_all(sources_.root); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = sources_.root / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void mount_version2(const std::string& group) {
    write("proc/self/cgroup", "0::" + group + "\n");
    write("proc/self/mountinfo",
          "22 1 0:20 / /proc rw - proc proc rw\n"
          "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void mount_version1(const std::string& group, const std::string& visible_from) {
    write("proc/self/cgroup", "5:memory:/elsewhere\n4:cpu,cpuacct:" + group + "\n0::/\n");
    write("proc/self/mountinfo", "32 31 0:29 " + visible_from +
                                     " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                                     "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  }

  CpuSources sources_;
};

TEST_F(FakeMachine, WithoutLimitsAllCpusAreUsable) {
  const CpuBudget budget = cpu_budget(sources_);
  EXPECT_EQ(budget.cpus, 64);
  EXPECT_EQ(budget.reason, "64 threads: all CPUs of the machine");
}

TEST_F(FakeMachine, B79QuotaOfVersion2Limits) {
  mount_version2("/user.slice/run.scope");
  write("sys/fs/cgroup/user.slice/run.scope/cpu.max", "200000 100000\n");
  const CpuBudget budget = cpu_budget(sources_);
  EXPECT_EQ(budget.cpus, 2);
  EXPECT_EQ(budget.reason, "2 threads: CPU quota 2.0 of 64");
}

TEST_F(FakeMachine, B79QuotaOfAnOuterGroupLimits) {
  mount_version2("/outer/inner");
  write("sys/fs/cgroup/outer/cpu.max", "300000 100000\n");
  write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_budget(sources_).cpus, 3);
}

TEST_F(FakeMachine, B79QuotaOfVersion1InAContainerLimits) {
  // The container sees its own group as the mount, while /proc/self/cgroup names it from the machine's root.
  mount_version1("/docker/0123abcd", "/docker/0123abcd");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  const CpuBudget budget = cpu_budget(sources_);
  EXPECT_EQ(budget.cpus, 4);
  EXPECT_EQ(budget.reason, "4 threads: CPU quota 4.0 of 64");
}

TEST_F(FakeMachine, B79UnlimitedVersion1QuotaDoesNotLimit) {
  mount_version1("/", "/");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_budget(sources_).cpus, 64);
}

TEST_F(FakeMachine, B79QuotaOfOneAndAHalfRoundsDown) {
  mount_version2("/");
  write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  const CpuBudget budget = cpu_budget(sources_);
  EXPECT_EQ(budget.cpus, 1);
  EXPECT_EQ(budget.reason, "1 thread: CPU quota 1.5 of 64");
}

TEST_F(FakeMachine, B79QuotaBelowOneStillGivesAThread) {
  mount_version2("/");
  write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  const CpuBudget budget = cpu_budget(sources_);
  EXPECT_EQ(budget.cpus, 1);
  EXPECT_EQ(budget.reason, "1 thread: CPU quota 0.5 of 64");
}

TEST_F(FakeMachine, B79AffinityLimitsWhenItIsTighterThanTheQuota) {
  mount_version2("/");
  write("sys/fs/cgroup/cpu.max", "800000 100000\n");
  sources_.affinity_cpus = 2;
  const CpuBudget budget = cpu_budget(sources_);
  EXPECT_EQ(budget.cpus, 2);
  EXPECT_EQ(budget.reason, "2 threads: affinity to 2 of 64 CPUs");
}

TEST_F(FakeMachine, DamagedFilesAreNoLimit) {
  mount_version2("/../../above");
  write("sys/fs/cgroup/cpu.max", "plenty of time\n");
  EXPECT_EQ(cpu_budget(sources_).cpus, 64);
}

TEST(CpuTopology, B79AffinityOfTheProcessIsRead) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const CpuBudget budget = cpu_budget();
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(budget.cpus, 1);
}

TEST_F(FakeMachine, TheLastLevelCacheIsTheLargestThatHoldsData) {
  EXPECT_FALSE(last_level_cache_bytes(sources_.root));
  const std::string caches = "sys/devices/system/cpu/cpu0/cache/index";
  const std::pair<const char*, const char*> levels[] = {
      {"Data", "32K"}, {"Instruction", "64M"}, {"Unified", "1048576"}, {"Unified", "3M"}, {"Unified", "what"}};
  for (int i = 0; i < 5; ++i) {
    write(caches + std::to_string(i) + "/type", levels[i].first);
    write(caches + std::to_string(i) + "/size", levels[i].second);
  }
  EXPECT_EQ(last_level_cache_bytes(sources_.root), size_t{3} << 20);
}

}  // namespace
}  // namespace reprise
