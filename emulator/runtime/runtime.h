// All of the emulator's state.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/runtime/handle_table.h"
#include "emulator/runtime/pinned_memory.h"
#include "emulator/runtime/profile.h"
#include "emulator/runtime/report_queue.h"
#include "emulator/runtime/status.h"
#include "emulator/runtime/task.h"
#include "emulator/runtime/thread_pool.h"

namespace reprise::emulator {

class Context;
class Device;
class Stream;

/// The one object behind the interface. It is never destroyed: a process may exit while its threads block.
class Runtime {
 public:
  static Runtime& instance();

  /// Guards everything but memory, the pool and the bytes of devices. Never held while a task or a callback runs.
  std::mutex& mutex() { return mutex_; }
  /// Notified whenever something happened that a stream or a replay may wait for.
  std::condition_variable& progress() { return progress_; }
  ThreadPool& threads() { return threads_; }
  PinnedMemory& pinned() { return pinned_; }
  ReportQueue& reports() { return reports_; }

  // Without the lock held.
  /// Reads the environment. 100002 when it was called before.
  Status initialize();
  /// Ends everything that runs and frees everything. 100037 when there is nothing to end.
  Status finalize();

  // Everything below with the lock held.
  HandleTable& handles() { return handles_; }
  const Profile& profile() const { return profile_; }
  bool executes() const { return execute_; }
  bool ending() const { return ending_; }
  int64_t system_parameter(aclSysParamOpt option) const { return system_parameters_[option]; }
  void set_system_parameter(aclSysParamOpt option, int64_t value) { system_parameters_[option] = value; }

  /// 107001 unless the profile has it.
  Status open_device(int32_t id, Device** device);
  /// Null unless the profile has it.
  Device* device(int32_t id) const;
  /// All of them; fixed between initialize() and finalize().
  const std::vector<std::shared_ptr<Device>>& devices() const { return devices_; }
  /// Makes an explicit context, or the primary one.
  Status create_context(Device& device, std::shared_ptr<Context>& context);
  void destroy_context(Lock& lock, std::shared_ptr<Context> context);
  /// Ends what runs on the device and frees what it holds.
  void reset_device(Lock& lock, Device& device);

  Status create_stream(Context& context, uint32_t flags, uint32_t priority, std::shared_ptr<Stream>& stream);
  void destroy_stream(Lock& lock, const std::shared_ptr<Stream>& stream);

  /// The calling thread's. 107002 when it has none.
  Status current_context(std::shared_ptr<Context>& context) const;
  /// The stream behind a handle, null being the current context's default one. 107002 without a context, 107017 for
  /// what is no stream, 107003 for one of another context.
  Status find_stream(aclrtStream handle, std::shared_ptr<Stream>& stream) const;
  /// The device of the current context. 107002.
  Status current_device(Device** device) const;

  int32_t next_id() { return next_id_++; }

 private:
  std::mutex mutex_;
  std::condition_variable progress_;
  ThreadPool threads_;
  PinnedMemory pinned_;
  ReportQueue reports_;
  HandleTable handles_;
  Profile profile_;
  std::vector<std::shared_ptr<Device>> devices_;
  bool initialized_ = false;
  bool execute_ = true;
  bool ending_ = false;
  int32_t next_id_ = 1;
  int64_t system_parameters_[ACL_OPT_KERNEL_EARLY_START + 1] = {};
};

}  // namespace reprise::emulator
