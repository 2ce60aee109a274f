#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "device/observer.h"

namespace reprise::replay {

/// How the spans of steps begin in a profile; behind it stands the number of sequences or tokens.
inline constexpr std::string_view kDecodeStepSpan = "decode step of";
inline constexpr std::string_view kPromptStepSpan = "prompt step of";
bool is_step_span(std::string_view name);

/// Everything that a device and the host's work with it did between two moments. From its construction on it observes
/// the device, until stop(): work is slower meanwhile, and launches that could run at the same time run one by one.
/// Behind that nothing of it remains. Only one at a time; a second one takes over.
class Profile final : public device::Observer {
 public:
  /// A span of the host.
  struct Span {
    std::string name;
    uint16_t label = 0;
    uint32_t thread = 0;  ///< from 0, in the order in which they came up
    int64_t begin = 0, end = 0;
    int64_t inner = 0;  ///< nanoseconds of the spans directly inside
  };
  struct Memory : device::MemoryRecord {
    int64_t at = 0;
  };

  /// Beyond so many records of a kind nothing more is kept, only counted.
  static constexpr size_t kMostRecords = 2'000'000;

  /// `on_last_step` is called at the end of step number `most_steps` (0: never) on the thread that ran it, without
  /// locks; what it throws is logged.
  explicit Profile(device::Device& device, int64_t most_steps = 0, std::function<void()> on_last_step = {});
  ~Profile() override;
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  /// Idempotent. The members below are for afterwards.
  void stop();

  const std::vector<device::WorkRecord>& work() const { return work_; }
  /// Those that have ended, in the order of their ends.
  const std::vector<Span>& spans() const { return spans_; }
  const std::vector<Memory>& memory() const { return memory_; }
  size_t dropped() const { return dropped_; }
  int64_t begin() const { return begin_; }  ///< nanoseconds of the steady clock
  int64_t end() const { return end_; }
  size_t allocated_before() const { return allocated_before_; }

  void on_work(const device::WorkRecord& record) override;
  void on_memory(const device::MemoryRecord& record) override;
  void begin_span(std::string_view name, uint16_t label) override;
  void end_span() override;

 private:
  /// The open spans of one thread, the outermost first.
  struct Thread {
    uint32_t number = 0;
    std::vector<Span> open;
  };
  Thread& this_thread();  // with the mutex
  template <typename Record>
  void keep(std::vector<Record>& records, Record record);

  device::Device* device_;
  int64_t most_steps_;
  std::function<void()> on_last_step_;
  int64_t steps_ = 0;
  std::mutex mutex_;
  std::vector<device::WorkRecord> work_;
  std::vector<Span> spans_;
  std::vector<Memory> memory_;
  std::map<std::thread::id, Thread> threads_;
  size_t dropped_ = 0;
  size_t allocated_before_ = 0;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

}  // namespace reprise::replay
