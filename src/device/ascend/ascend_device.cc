#include "device/ascend/ascend_device.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "device/ascend/acl_stream.h"
#include "device/ascend/ascend_core.h"
#include "device/ascend/emulated_costs.h"
#include "device/ascend/event_state.h"

namespace reprise::device::ascend {
namespace {

/// The mode that the calling thread has where the runtime has no captures and so no such modes.
thread_local CaptureMode thread_mode = CaptureMode::kGlobal;

class AscendDevice : public Device {
 public:
  explicit AscendDevice(const AscendOptions& options)
      : core_(std::make_shared<AscendCore>(options)),
        capabilities_(capabilities_of(*core_)),
        default_stream_(std::make_unique<AclStream>(core_, *this, StreamOptions{0, "default"}, true)) {}
  ~AscendDevice() override {
    default_stream_.reset();
    core_->dig_graves(true);
    core_->observer.store(nullptr, std::memory_order_release);
  }

  std::string_view name() const override { return "ascend"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  MemoryInfo memory_info() override { return core_->memory_info(); }
  DeviceCounters counters() const override {
    const auto& counters = core_->counters;
    return {counters.launches, counters.replays, counters.captures, counters.task_updates, counters.allocations};
  }

  std::shared_ptr<Storage> allocate(size_t bytes, MemoryKind kind) override { return core_->allocate(bytes, kind); }
  std::shared_ptr<Arena> reserve_arena(size_t bytes) override { return core_->reserve_arena(bytes); }
  Tensor import(const TensorMeta& meta, std::span<const std::byte> host, std::shared_ptr<const void> owner) override;

  Stream& default_stream() override { return *default_stream_; }
  std::unique_ptr<Stream> create_stream(StreamOptions options) override;
  std::unique_ptr<Event> create_event(EventKind kind) override { return std::make_unique<AscendEvent>(core_, kind); }

  void copy(void* destination, const void* source, size_t bytes, CopyKind kind) override;
  void fill(void* destination, unsigned char value, size_t bytes) override;
  void synchronize() override;
  CaptureBudget plan_captures(const CaptureDemand& demand) override {
    if (core_->features.has(Feature::kGraph)) return trim_captures(demand, core_->capture_room());
    return {demand.sizes, fmt::format("no batch size can be captured: {}", core_->features.why_not(Feature::kGraph))};
  }
  std::optional<ModelledCosts> modelled_costs() override { return emulated_costs(*core_->library, core_->device_id); }
  CaptureMode exchange_capture_mode(CaptureMode mode) override;

  void set_observer(Observer* observer) override {
    const std::lock_guard lock(core_->mutex);
    core_->observer.store(observer, std::memory_order_release);
    Device::set_observer(observer);
  }

 private:
  static constexpr int kLeastPriority = 3;
  static constexpr int kGreatestPriority = -4;

  static Capabilities capabilities_of(const AscendCore& core);

  std::shared_ptr<AscendCore> core_;
  Capabilities capabilities_;
  std::unique_ptr<AclStream> default_stream_;
};

Capabilities AscendDevice::capabilities_of(const AscendCore& core) {
  Capabilities capabilities;
  capabilities.task_update = core.features.has(Feature::kTaskUpdate);
  capabilities.external_events = core.features.has(Feature::kValueWait) || core.features.has(Feature::kExternalEvent);
  // The launch goes first, and the graph waits in front of each host-tiled operator for its update: what is prepared on
  // the host meanwhile costs no time.
  capabilities.preferred_update_order =
      capabilities.external_events ? UpdateOrder::kReplayThenUpdate : UpdateOrder::kUpdateThenReplay;
  capabilities.host_addressable = false;
  capabilities.shares_host_cores = false;
  capabilities.vectors_like_rows = true;
  capabilities.limited_captures = true;
  capabilities.fixed_memory = true;
  capabilities.default_page_size = 128;  // what its attention is made for
  capabilities.cores = std::max(core.cube_cores, core.vector_cores);
  capabilities.least_priority = kLeastPriority;
  capabilities.greatest_priority = kGreatestPriority;
  const char* soc = core.library->aclrtGetSocName();
  const std::string version = core.library->version();
  capabilities.description =
      fmt::format("{} {}{}, {} cube and {} vector cores{}{}{}", soc == nullptr ? "Ascend" : soc,
                  "ascend:", core.device_id, core.cube_cores, core.vector_cores, version.empty() ? "" : ", runtime ",
                  version, core.library->is_emulator() ? " (emulated)" : "");
  if (!core.features.has(Feature::kGraph)) capabilities.description += "; no captured graphs: steps run eagerly";
  return capabilities;
}

Tensor AscendDevice::import(const TensorMeta& meta, std::span<const std::byte> host, std::shared_ptr<const void>) {
  const size_t bytes = meta.contiguous_bytes();
  if (host.size() != bytes) {
    throw Error(ErrorCode::kInvalidArgument, "import of {} needs {} bytes and was given {}", meta.to_string(), bytes,
                host.size());
  }
  std::shared_ptr<Storage> storage = core_->allocate(bytes, MemoryKind::kDevice);
  if (bytes > 0) core_->copy_now(storage->data(), host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  return Tensor(meta, std::move(storage));
}

std::unique_ptr<Stream> AscendDevice::create_stream(StreamOptions options) {
  if (options.priority < kGreatestPriority || options.priority > kLeastPriority) {
    throw Error(ErrorCode::kInvalidArgument, "stream priority {} is not between {} and {}", options.priority,
                kGreatestPriority, kLeastPriority);
  }
  return std::make_unique<AclStream>(core_, *this, std::move(options), false);
}

void AscendDevice::copy(void* destination, const void* source, size_t bytes, CopyKind kind) {
  if (bytes == 0) return;
  if (destination == nullptr || source == nullptr) throw Error(ErrorCode::kInvalidArgument, "copy with a null address");
  core_->enter();
  core_->check(core_->library->aclrtMemcpy(destination, bytes, source, bytes, acl_copy_kind(kind)), "aclrtMemcpy",
               "synchronous copy");
}

void AscendDevice::fill(void* destination, unsigned char value, size_t bytes) {
  if (bytes == 0) return;
  if (destination == nullptr) throw Error(ErrorCode::kInvalidArgument, "fill with a null address");
  core_->enter();
  core_->check(core_->library->aclrtMemset(destination, bytes, value, bytes), "aclrtMemset", "synchronous fill");
}

void AscendDevice::synchronize() {
  {
    const std::lock_guard lock(core_->mutex);
    if (core_->any_capture())
      throw Error(ErrorCode::kStreamCapturing, "synchronize of the device while a stream captures");
  }
  core_->enter();
  core_->synchronize_streams();
}

CaptureMode AscendDevice::exchange_capture_mode(CaptureMode mode) {
  if (!core_->features.has(Feature::kGraph)) return std::exchange(thread_mode, mode);
  core_->enter();
  auto exchanged = static_cast<aclmdlRICaptureMode>(mode);  // the same numbers
  core_->check(core_->library->aclmdlRICaptureThreadExchangeMode(&exchanged), "aclmdlRICaptureThreadExchangeMode",
               "exchanging the thread's capture mode");
  return static_cast<CaptureMode>(exchanged);
}

static_assert(static_cast<int>(CaptureMode::kGlobal) == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL &&
              static_cast<int>(CaptureMode::kThreadLocal) == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL &&
              static_cast<int>(CaptureMode::kRelaxed) == ACL_MODEL_RI_CAPTURE_MODE_RELAXED);

}  // namespace

std::unique_ptr<Device> create_ascend_device(const AscendOptions& options) {
  return std::make_unique<AscendDevice>(options);
}

}  // namespace reprise::device::ascend
