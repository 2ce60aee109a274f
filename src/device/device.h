#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "device/capture.h"
#include "device/capture_budget.h"
#include "device/event.h"
#include "device/modelled_costs.h"
#include "device/stream.h"
#include "tensor/tensor.h"

namespace reprise::device {

enum class MemoryKind {
  kDevice,      ///< what kernels work on
  kPinnedHost,  ///< host memory that asynchronous copies accept
};

/// Which order of replay and updates a device needs or prefers.
enum class UpdateOrder { kUpdateThenReplay, kReplayThenUpdate };

/// What a device can do; read once, then trusted.
struct Capabilities {
  UpdateOrder preferred_update_order = UpdateOrder::kUpdateThenReplay;
  bool task_update = true;
  bool external_events = true;
  bool host_addressable = true;  ///< host code may dereference device memory (false under the `discrete` setting)
  /// Work runs on the host's own cores: a host that does something else meanwhile holds it up.
  bool shares_host_cores = true;
  int cores = 1;  ///< upper bound of a core limit
  int least_priority = 0;
  int greatest_priority = 0;  ///< numerically smaller or equal
  int default_max_graph_batch = 32;
  int default_page_size = 16;  ///< tokens in a page of the KV cache
  /// Fused norms and quantisations take the vectors of norms' weights and static scales in the dtype of the rows, a
  /// value for each column: models hold them so where that loses nothing.
  bool vectors_like_rows = false;
  bool limited_captures = false;  ///< plan_captures() may leave sizes out
  /// Memory is the device's own: nothing can be borrowed from the host, and arenas are taken as a whole. What steps
  /// work in has to be taken before everything else is given to the KV cache.
  bool fixed_memory = false;
  std::string description;  ///< one line for people: model, instruction set, cores and why so many
};

struct MemoryInfo {
  size_t total_bytes = 0;
  size_t available_bytes = 0;
  size_t allocated_bytes = 0;  ///< through this Device, now
};

/// Counters since the device was made. A replay moves `replays` and nothing else.
struct DeviceCounters {
  int64_t launches = 0;  ///< eager launches, or captured ones at capture time
  int64_t replays = 0;
  int64_t captures = 0;
  int64_t task_updates = 0;
  int64_t allocations = 0;
};

/// Address space reserved once for a graph's intermediates; memory is committed as it is needed.
class Arena : public Storage {
 public:
  using Storage::Storage;
  /// Makes the first `bytes` usable. Addresses do not move. kOutOfMemory, or kInvalidArgument above the reservation.
  virtual void commit(size_t bytes) = 0;
  virtual size_t committed_bytes() const = 0;
};

class Observer;

/// One device: memory, streams, events, capture. Its functions may be called from any thread.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  virtual const Capabilities& capabilities() const = 0;
  virtual MemoryInfo memory_info() = 0;
  virtual DeviceCounters counters() const = 0;

  /// At least 64-byte aligned; contents undefined. kOutOfMemory. Allowed during capture. Work that was queued before
  /// the last handle went still finds its memory.
  virtual std::shared_ptr<Storage> allocate(size_t bytes, MemoryKind kind = MemoryKind::kDevice) = 0;
  virtual std::shared_ptr<Arena> reserve_arena(size_t bytes) = 0;
  /// Makes host data usable by kernels: in place where the device can (the owner is kept alive), else by a copy.
  virtual Tensor import(const TensorMeta& meta, std::span<const std::byte> host, std::shared_ptr<const void> owner) = 0;

  virtual Stream& default_stream() = 0;
  virtual std::unique_ptr<Stream> create_stream(StreamOptions options = {}) = 0;
  virtual std::unique_ptr<Event> create_event(EventKind kind = EventKind::kOrdinary) = 0;

  /// Synchronous copy and fill, in no stream's order: they wait for nothing. "Unsafe" during capture: kCaptureForbidden
  /// where a mode says so, which does not harm the capture.
  virtual void copy(void* destination, const void* source, size_t bytes, CopyKind kind) = 0;
  virtual void fill(void* destination, unsigned char value, size_t bytes) = 0;
  /// Waits for every stream; kStreamCapturing while any captures.
  virtual void synchronize() = 0;

  /// Which of the sizes the device can hold as captured graphs, asked before the first of them is captured.
  virtual CaptureBudget plan_captures(const CaptureDemand& demand) { return {demand.sizes, {}}; }

  /// What an emulated device has counted; absent on devices that run what they are given.
  virtual std::optional<ModelledCosts> modelled_costs() { return std::nullopt; }

  /// The calling thread's own mode, default kGlobal, against which captures of others are held; returns the old one.
  virtual CaptureMode exchange_capture_mode(CaptureMode mode) = 0;

  /// From here on `observer` is told what runs; null: nobody is. When it returns, the observer before it is called no
  /// more. A device that cannot tell is silent.
  virtual void set_observer(Observer* observer) { observer_.store(observer, std::memory_order_release); }
  Observer* observer() const { return observer_.load(std::memory_order_acquire); }

 private:
  std::atomic<Observer*> observer_ = nullptr;
};

}  // namespace reprise::device
