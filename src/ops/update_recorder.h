#pragma once

#include <functional>
#include <span>

#include "device/stream.h"
#include "ops/host_list.h"

namespace reprise::ops {

/// What a host-tiled operator leaves behind when it is captured: its task group, and how to launch it again with the
/// host lists of another step. The owner of the captured graph applies it.
struct UpdateRecord {
  device::TaskGroup* group = nullptr;
  /// Re-issues the operator's launches on a stream, between begin and end of a task update. `lists` are the host lists
  /// of the whole step, in the order of the graph's host inputs.
  std::function<void(device::Stream& stream, std::span<const HostList> lists)> reissue;
};

/// Collects update records during one capture.
class UpdateRecorder {
 public:
  virtual ~UpdateRecorder() = default;
  /// Called in front of each task group, so that the owner can put what its update order needs there.
  virtual void before_group(device::Stream& stream) = 0;
  virtual void record(UpdateRecord record) = 0;
};

}  // namespace reprise::ops
