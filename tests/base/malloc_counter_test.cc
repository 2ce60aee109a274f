#include "base/malloc_counter.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

namespace reprise {
namespace {

/// Keeps the compiler from leaving out an allocation whose memory nobody reads.
void keep(void* memory) { asm volatile("" : : "g"(memory) : "memory"); }

TEST(MallocCounter, CountsEveryWayToAllocate) {
  if (!MallocCounter::available()) GTEST_SKIP() << "not in this build";
  const MallocCounter counter;
  std::vector<void*> blocks = {};
  blocks.reserve(8);
  const int64_t before = counter.count();
  EXPECT_EQ(before, 1);
  blocks.push_back(std::malloc(10));
  blocks.push_back(std::calloc(3, 10));
  blocks.push_back(std::realloc(nullptr, 10));
  blocks.push_back(std::aligned_alloc(64, 128));
  void* aligned = nullptr;
  ASSERT_EQ(posix_memalign(&aligned, 64, 128), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 64, 0u);
  blocks.push_back(aligned);
  EXPECT_EQ(counter.count(), before + 5);
  for (void* block : blocks) {
    keep(block);
    std::free(block);
  }
  auto* with_new = ::operator new(10);
  keep(with_new);
  ::operator delete(with_new);
  auto* over_aligned = ::operator new(128, std::align_val_t(64));
  keep(over_aligned);
  ::operator delete(over_aligned, std::align_val_t(64));
  EXPECT_EQ(counter.count(), before + 7);
}

TEST(MallocCounter, CountsOnOtherThreadsAndNotWithoutACounter) {
  if (!MallocCounter::available()) GTEST_SKIP() << "not in this build";
  const auto allocate = [] {
    void* block = std::malloc(10);
    keep(block);
    std::free(block);
  };
  auto counter = std::make_unique<MallocCounter>();
  std::thread(allocate).join();
  EXPECT_GE(counter->count(), 1);
  counter.reset();
  allocate();
  const MallocCounter later;
  EXPECT_EQ(later.count(), 0);
}

}  // namespace
}  // namespace reprise
