#pragma once

#include <string>
#include <vector>

#include "ops/launch_labels.h"
#include "replay/profile.h"

namespace reprise::replay {

/// One line of a profile's tables: host spans, or device work, of one name and one list of input shapes.
struct ProfileRow {
  std::string name;
  std::string shapes = "[]";
  int64_t calls = 0;
  int64_t self_host = 0;     ///< nanoseconds, without the spans inside
  int64_t total_host = 0;    ///< nanoseconds
  int64_t self_device = 0;   ///< nanoseconds, of device work
  int64_t total_device = 0;  ///< nanoseconds, of device work and of what an operator's launches took
};

/// What steps of one kind and size took. A step is idle while it has begun, has not ended, and no kernel runs: the
/// host's share of it.
struct StepIdle {
  std::string name;  ///< "decode step of 8"
  int64_t steps = 0;
  double milliseconds = 0;  ///< of the step in the middle, by its time
  double kernel_milliseconds = 0;
  double idle_share() const { return milliseconds > 0 ? 1 - kernel_milliseconds / milliseconds : 0; }
};

/// A profile for people and for tools. Give it the labels of the runner whose work was profiled.
class ProfileReport {
 public:
  ProfileReport(const Profile& profile, std::vector<ops::LaunchLabel> labels);

  const std::vector<ProfileRow>& rows() const { return rows_; }
  const std::vector<StepIdle>& idle() const { return idle_; }

  /// Two tables of the ten rows that took most, by device time and by host time, in the columns of torch's profiler;
  /// then how far each kind of step was idle. Of a device that gives no times of kernels only the second table.
  std::string tables() const;
  /// The Trace Event Format, which Perfetto and Chromium's developer tools open: host threads, device streams, memory
  /// in use.
  std::string trace_json() const;
  /// Every change of the device's memory, in order, with the sum that is in use.
  std::string memory_json() const;

 private:
  void add_rows();
  void add_idle();
  bool lacks_kernel_times() const;
  const ops::LaunchLabel* label(uint16_t number) const;
  std::string table(std::vector<ProfileRow> rows) const;

  const Profile& profile_;
  std::vector<ops::LaunchLabel> labels_;
  std::vector<ProfileRow> rows_;
  std::vector<StepIdle> idle_;
  int64_t host_total_ = 0;
  int64_t device_total_ = 0;
};

}  // namespace reprise::replay
