#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "device/stream.h"
#include "ops/host_list.h"
#include "ops/op_def.h"

namespace reprise::ops {

/// What a host-tiled operator leaves behind when it is captured: its task group, and how to launch it again with the
/// host lists of another step. The owner of the captured graph applies it: it plans, compares the choices, and has the
/// launches re-issued.
struct UpdateRecord {
  std::string_view op;  ///< the operator's name, as long as the registry lives
  device::TaskGroup* group = nullptr;
  std::vector<Choice> choices;  ///< made at capture: the launches of the group are those of these choices
  /// What plan() fills; records of several captures of one graph share it.
  const Tiling* tiling = nullptr;
  /// Plans for the host lists of the whole step, in the order of the graph's host inputs.
  std::function<void(std::span<const HostList> lists)> plan;
  /// Re-issues the launches as they were planned last, on a stream between begin and end of a task update.
  std::function<void(device::Stream& stream)> reissue;
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
