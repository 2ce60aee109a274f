// The CPU's memory: reuse, accounting, and the discrete setting.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>

#include "device/cpu/cpu_device.h"

namespace reprise::device::cpu {
namespace {

TEST(CpuMemory, ReleasedBlocksAreUsedAgain) {
  const auto device = create_cpu_device({.threads = 1, .discrete = false});
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{1000}, size_t{1} << 20, size_t{5} << 20}) {
    auto storage = device->allocate(bytes);
    void* address = storage->data();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % 64, 0u);
    storage.reset();
    EXPECT_EQ(device->allocate(bytes)->data(), address) << bytes;
  }
}

TEST(CpuMemory, BlocksOfManySizesDoNotOverlap) {
  const auto device = create_cpu_device({.threads = 1, .discrete = false});
  std::vector<std::shared_ptr<Storage>> storages;
  for (size_t i = 0; i < 400; ++i) {
    const size_t bytes = i * i * 17 % 90'000 + 1;
    storages.push_back(device->allocate(bytes));
    std::memset(storages.back()->data(), static_cast<int>(i % 251), bytes);
  }
  for (size_t i = 0; i < storages.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(storages[i]->data());
    EXPECT_TRUE(std::all_of(bytes, bytes + storages[i]->bytes(), [&](unsigned char b) { return b == i % 251; }));
  }
}

TEST(CpuMemory, BlocksOfQueuedWorkAreNotUsedAgainBeforeItHasRun) {
  const auto device = create_cpu_device({.threads = 1, .discrete = false});
  const auto stream = device->create_stream();
  auto storage = device->allocate(1000);
  void* address = storage->data();
  stream->fill_async(address, 1, 1000);
  storage.reset();
  EXPECT_NE(device->allocate(1000)->data(), address);
  stream->synchronize();
  // Both blocks are free now.
  const auto first = device->allocate(1000);
  const auto second = device->allocate(1000);
  EXPECT_TRUE(first->data() == address || second->data() == address);
}

TEST(CpuMemory, EagerCodeDoesNotPileUpReleasedMemory) {
  const auto device = create_cpu_device({.threads = 1, .discrete = false});
  const auto stream = device->create_stream();
  std::set<void*> addresses;
  for (int i = 0; i < 300; ++i) {
    const auto storage = device->allocate(size_t{1} << 20);
    stream->fill_async(storage->data(), 0, storage->bytes());
    addresses.insert(storage->data());
  }
  stream->synchronize();
  EXPECT_LE(addresses.size(), 20u);  // 16 MiB may wait for queued work
}

TEST(CpuMemory, MappedDataIsUsedInPlaceAndUnalignedDataIsCopied) {
  const auto device = create_cpu_device({.threads = 1, .discrete = false});
  auto owner = std::make_shared<std::vector<std::byte>>(65);
  const TensorMeta meta(DType::kF32, Shape{16});
  const std::span<const std::byte> all(*owner);
  EXPECT_EQ(device->import(meta, all.subspan(0, 64), owner).data(), owner->data());
  EXPECT_NE(device->import(meta, all.subspan(1, 64), owner).data(), owner->data() + 1);
  EXPECT_NE(device->import(meta, all.subspan(0, 64), nullptr).data(), owner->data());
}

TEST(CpuMemory, StorageMayOutliveTheDevice) {
  std::shared_ptr<Storage> storage;
  {
    const auto device = create_cpu_device({.threads = 2, .discrete = false});
    storage = device->allocate(1000);
  }
  std::memset(storage->data(), 1, 1000);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(CpuMemoryDeathTest, AddressSanitizerSeesReplaysOnReleasedMemoryAndOverruns) {
  const auto device = create_cpu_device({.threads = 1, .discrete = false});
  const auto stream = device->create_stream();
  auto storage = device->allocate(100);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->fill_async(storage->data(), 0, 100);
  const auto graph = stream->end_capture();
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->fill_async(storage->data(), 0, 101);
  const auto overrun = stream->end_capture();
  graph->replay(*stream);
  stream->synchronize();
  const auto run = [&](CapturedGraph& captured) {
    captured.replay(*stream);
    stream->synchronize();
  };
  EXPECT_DEATH(run(*overrun), "use-after-poison");
  storage.reset();
  EXPECT_DEATH(run(*graph), "use-after-poison");
}
#endif

// ---- discrete memory

/// Whether reading (and writing) the byte ends a process. Without the sanitizers' own handlers, which would report it.
bool faults(volatile unsigned char* address) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int number : {SIGSEGV, SIGBUS}) signal(number, SIG_DFL);
    *address = static_cast<unsigned char>(*address + 1);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

TEST(DiscreteMemory, HostCodeFaultsOnDeviceAddresses) {
  const auto device = create_cpu_device({.threads = 2, .discrete = true});
  EXPECT_FALSE(device->capabilities().host_addressable);
  const auto small = device->allocate(100);
  const auto large = device->allocate(size_t{4} << 20);
  const auto arena = device->reserve_arena(size_t{1} << 20);
  arena->commit(8192);
  const std::vector<float> host(16, 1.5f);
  const Tensor imported =
      device->import(TensorMeta(DType::kF32, Shape{16}), std::as_bytes(std::span(host)), std::make_shared<int>());
  const auto pinned = device->allocate(100, MemoryKind::kPinnedHost);
  const auto check = [&] {
    for (void* address : {small->data(), large->data(), arena->data(), imported.data()})
      EXPECT_TRUE(faults(static_cast<unsigned char*>(address)));
    EXPECT_FALSE(faults(static_cast<unsigned char*>(pinned->data())));
  };
  check();
  // Also after the device has used it.
  const auto stream = device->create_stream();
  for (void* address : {small->data(), large->data(), arena->data()}) stream->fill_async(address, 0, 100);
  stream->synchronize();
  std::vector<float> back(16);
  device->copy(back.data(), imported.data(), 64, CopyKind::kDeviceToHost);
  EXPECT_EQ(back, host);
  check();
}

TEST(DiscreteMemory, WithoutItHostCodeReachesDeviceMemory) {
  const auto device = create_cpu_device({.threads = 1, .discrete = false});
  EXPECT_TRUE(device->capabilities().host_addressable);
  EXPECT_FALSE(faults(static_cast<unsigned char*>(device->allocate(100)->data())));
}

}  // namespace
}  // namespace reprise::device::cpu
