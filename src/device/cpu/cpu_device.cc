#include "device/cpu/cpu_device.h"

#include <fmt/core.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "base/system_memory.h"
#include "device/cpu/cpu_core.h"
#include "device/cpu/cpu_event.h"
#include "device/cpu/cpu_storage.h"
#include "device/cpu/queued_stream.h"

namespace reprise::device::cpu {
namespace {

/// The processor's name as the system gives it, or what it was compiled for.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "CPU";
#endif
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(const CpuOptions& options)
      : core_(std::make_shared<CpuCore>(options)), default_stream_(core_, *this, StreamOptions{0, "default"}, true) {
    capabilities_.host_addressable = !options.discrete;
    capabilities_.cores = core_->team.size();
    capabilities_.least_priority = kLeastPriority;
    capabilities_.greatest_priority = kGreatestPriority;
    const std::string threads = options.threads > 0
                                    ? fmt::format("{} thread{} as asked for (usable: {})", options.threads,
                                                  options.threads == 1 ? "" : "s", core_->budget.cpus)
                                    : core_->budget.reason;
    capabilities_.description = fmt::format("{}, {}", processor_name(), threads);
  }

  std::string_view name() const override { return "cpu"; }
  const Capabilities& capabilities() const override { return capabilities_; }

  MemoryInfo memory_info() override {
    const SystemMemory system = system_memory();
    const std::lock_guard lock(core_->mutex);
    return {system.total_bytes, system.available_bytes, core_->memory.allocated_bytes()};
  }

  DeviceCounters counters() const override {
    const std::lock_guard lock(core_->mutex);
    return core_->counters;
  }

  std::shared_ptr<Storage> allocate(size_t bytes, MemoryKind kind) override { return core_->allocate(bytes, kind); }
  std::shared_ptr<Arena> reserve_arena(size_t bytes) override { return core_->reserve_arena(bytes); }
  Tensor import(const TensorMeta& meta, std::span<const std::byte> host, std::shared_ptr<const void> owner) override;

  Stream& default_stream() override { return default_stream_; }
  std::unique_ptr<Stream> create_stream(StreamOptions options) override;
  std::unique_ptr<Event> create_event(EventKind kind) override { return std::make_unique<CpuEvent>(core_, kind); }

  void copy(void* destination, const void* source, size_t bytes, CopyKind kind) override;
  void fill(void* destination, unsigned char value, size_t bytes) override;
  void synchronize() override;

  void set_observer(Observer* observer) override {
    Executor::Lock lock(core_->mutex);
    core_->executor.set_observer(lock, observer);
    Device::set_observer(observer);
  }

  CaptureMode exchange_capture_mode(CaptureMode mode) override {
    const std::lock_guard lock(core_->mutex);
    return core_->exchange_capture_mode(mode);
  }

 private:
  // Any numbers would do; these leave room on both sides of the default, 0.
  static constexpr int kLeastPriority = 7;
  static constexpr int kGreatestPriority = -7;

  /// kCaptureForbidden where a live capture says so.
  void check_unsafe_call(const char* call);

  std::shared_ptr<CpuCore> core_;
  Capabilities capabilities_;
  QueuedStream default_stream_;
};

std::unique_ptr<Stream> CpuDevice::create_stream(StreamOptions options) {
  if (options.priority < kGreatestPriority || options.priority > kLeastPriority) {
    throw Error(ErrorCode::kInvalidArgument, "stream priority {} is not between {} and {}", options.priority,
                kGreatestPriority, kLeastPriority);
  }
  return std::make_unique<QueuedStream>(core_, *this, std::move(options), false);
}

Tensor CpuDevice::import(const TensorMeta& meta, std::span<const std::byte> host, std::shared_ptr<const void> owner) {
  const size_t bytes = meta.contiguous_bytes();
  if (host.size() != bytes) {
    throw Error(ErrorCode::kInvalidArgument, "import of {} needs {} bytes and was given {}", meta.to_string(), bytes,
                host.size());
  }
  const bool aligned = reinterpret_cast<uintptr_t>(host.data()) % size_of(meta.dtype) == 0;
  if (!core_->discrete && aligned && owner != nullptr && bytes > 0)
    return Tensor(meta, core_->adopt(host, std::move(owner)));
  std::shared_ptr<Storage> storage = core_->allocate(bytes, MemoryKind::kDevice);
  if (bytes > 0) core_->copy_now(storage->data(), host.data(), 0, bytes);
  return Tensor(meta, std::move(storage));
}

void CpuDevice::check_unsafe_call(const char* call) {
  const std::lock_guard lock(core_->mutex);
  if (core_->forbids_unsafe_calls()) {
    throw Error(ErrorCode::kCaptureForbidden, "synchronous {} while a capture forbids it", call)
        .remedy("use the stream's asynchronous call, or exchange_capture_mode(CaptureMode::kRelaxed)");
  }
}

void CpuDevice::copy(void* destination, const void* source, size_t bytes, CopyKind) {
  check_unsafe_call("copy");
  if (bytes == 0) return;
  if (destination == nullptr || source == nullptr) throw Error(ErrorCode::kInvalidArgument, "copy with a null address");
  core_->copy_now(destination, source, 0, bytes);
}

void CpuDevice::fill(void* destination, unsigned char value, size_t bytes) {
  check_unsafe_call("fill");
  if (bytes == 0) return;
  if (destination == nullptr) throw Error(ErrorCode::kInvalidArgument, "fill with a null address");
  core_->copy_now(destination, nullptr, value, bytes);
}

void CpuDevice::synchronize() {
  std::exception_ptr error;
  {
    Executor::Lock lock(core_->mutex);
    if (core_->any_capture())
      throw Error(ErrorCode::kStreamCapturing, "synchronize of the device while a stream captures");
    core_->executor.run_until(lock, nullptr, [this] { return core_->executor.is_idle(); });
    error = core_->executor.take_error();
  }
  core_->reclaim();
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace

std::unique_ptr<Device> create_cpu_device(const CpuOptions& options) {
  if (options.threads < 0) throw Error(ErrorCode::kInvalidArgument, "{} threads", options.threads);
  return std::make_unique<CpuDevice>(options);
}

}  // namespace reprise::device::cpu
