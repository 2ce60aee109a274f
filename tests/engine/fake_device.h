#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "device/device.h"

namespace reprise::engine {

/// Host memory behind the device interface: what KvPool needs of a device. Memory is counted and can be limited.
class FakeDevice : public device::Device {
 public:
  size_t memory_limit = size_t{1} << 30;
  size_t allocated = 0;

  std::string_view name() const override { return "fake"; }
  const device::Capabilities& capabilities() const override { return capabilities_; }
  device::MemoryInfo memory_info() override { return {memory_limit, memory_limit - allocated, allocated}; }
  device::DeviceCounters counters() const override { return {}; }
  std::shared_ptr<Storage> allocate(size_t bytes, device::MemoryKind) override {
    if (allocated + bytes > memory_limit) throw Error(ErrorCode::kOutOfMemory, "no {} bytes left", bytes);
    allocated += bytes;
    return std::make_shared<HostStorage>(*this, bytes);
  }
  void copy(void* destination, const void* source, size_t bytes, device::CopyKind) override {
    std::memcpy(destination, source, bytes);
  }
  void fill(void* destination, unsigned char value, size_t bytes) override { std::memset(destination, value, bytes); }

  std::shared_ptr<device::Arena> reserve_arena(size_t) override { unused(); }
  Tensor import(const TensorMeta&, std::span<const std::byte>, std::shared_ptr<const void>) override { unused(); }
  device::Stream& default_stream() override { unused(); }
  std::unique_ptr<device::Stream> create_stream(device::StreamOptions) override { unused(); }
  std::unique_ptr<device::Event> create_event(device::EventKind) override { unused(); }
  void synchronize() override { unused(); }
  device::CaptureMode exchange_capture_mode(device::CaptureMode) override { unused(); }

 private:
  class HostStorage : public Storage {
   public:
    HostStorage(FakeDevice& device, size_t bytes) : Storage(std::malloc(bytes), bytes), device_(device) {}
    ~HostStorage() override {
      device_.allocated -= bytes();
      std::free(data());
    }

   private:
    FakeDevice& device_;
  };
  [[noreturn]] static void unused() { throw Error(ErrorCode::kInternal, "the fake device has memory only"); }

  device::Capabilities capabilities_;
};

}  // namespace reprise::engine
