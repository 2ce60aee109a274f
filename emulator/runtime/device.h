// One emulated chip.
#pragma once

#include <memory>
#include <set>
#include <unordered_map>

#include "emulator/runtime/device_memory.h"
#include "emulator/runtime/device_owner.h"
#include "emulator/runtime/profile.h"
#include "emulator/runtime/resource_counter.h"
#include "emulator/runtime/time_account.h"
#include "emulator/runtime/validation/order.h"

namespace reprise::emulator {

class Context;

/// What ran on a device since it was opened; times by the timing model, in seconds.
struct DeviceStatistics {
  uint64_t launches = 0;       // of kernels, by the host
  uint64_t replays = 0;        // of graphs, by the host
  uint64_t updates = 0;        // kernels replaced in graphs
  uint64_t kernels = 0;        // run, in streams and in graphs
  uint64_t graph_kernels = 0;  // of them in graphs
  uint64_t other_tasks = 0;    // copies, fills, records, waits ...
  uint64_t bytes_read = 0;     // by kernels
  uint64_t bytes_written = 0;  // by kernels
  uint64_t multiply_adds = 0;
  uint64_t bytes_copied = 0;  // by copies and fills
  double kernel_time = 0;     // sum of the kernels' durations
  double clock = 0;           // the latest end of any task
  double clock_at_reset = 0;
  double host_clock_at_reset = 0;  // of the thread that reset them
  TimeAccount account;
};

/// Guarded by Runtime::mutex() but for the memory, which guards itself.
class Device : public std::enable_shared_from_this<Device> {
 public:
  /// `poison`: new memory is filled with bytes that no program expects.
  Device(int32_t number, const Profile& chip, bool execute, bool poison);

  /// Null when the device works. A device error stays until the device is reset.
  const Status& error() const { return error_; }
  void fail(Status status);
  /// Forgets errors, limits and memory. Statistics go on: they are read when all is over.
  void clear();

  /// Core limits for all that is prepared on the device; 0 where none is set.
  uint32_t core_limit(aclrtDevResLimitType type) const { return core_limits_[type]; }
  void set_core_limit(aclrtDevResLimitType type, uint32_t cores) { core_limits_[type] = cores; }
  uint32_t cores(aclrtDevResLimitType type) const {
    return type == ACL_RT_DEV_RES_CUBE_CORE ? profile.cube_cores : profile.vector_cores;
  }

  /// When, by the timing model, a stream wrote a word last.
  void note_word(const void* address, double clock, OrderPointer order) {
    word_clocks_[address] = clock;
    if (order) word_orders_[address] = std::move(order);
  }
  double word_clock(const void* address) const {
    const auto word = word_clocks_.find(address);
    return word == word_clocks_.end() ? 0 : word->second;
  }
  /// What had happened by then, for the validation layer.
  OrderPointer word_order(const void* address) const {
    const auto word = word_orders_.find(address);
    return word == word_orders_.end() ? nullptr : word->second;
  }

  const int32_t id;
  const Profile& profile;
  DeviceMemory memory;
  ResourceCounter streams;
  ResourceCounter events;
  ResourceCounter notifies;
  ResourceCounter models;
  ResourceCounter software_queues;  // of graphs that run
  DeviceStatistics statistics;
  std::shared_ptr<Context> primary;
  std::set<std::shared_ptr<Context>> contexts;  // the primary one too
  uint32_t references = 0;                      // calls of aclrtSetDevice that aclrtResetDevice has not taken back

 private:
  Status error_;
  uint32_t core_limits_[2] = {0, 0};
  std::unordered_map<const void*, double> word_clocks_;
  std::unordered_map<const void*, OrderPointer> word_orders_;
};

}  // namespace reprise::emulator
