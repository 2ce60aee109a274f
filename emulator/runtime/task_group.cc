#include "emulator/runtime/task_group.h"

#include <fmt/format.h>

#include "emulator/runtime/capture.h"
#include "emulator/runtime/captured_graph.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/validation/validation.h"

namespace reprise::emulator {
namespace {

Status absent_groups() {
  return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the driver of this device has no task groups");
}

}  // namespace

Status TaskGroup::check_kind(const Task& task) {
  if (task.kind() != TaskKind::kKernel) {
    return Status(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
                  fmt::format("a task group holds kernels only, and this is a {}", name_of(task.kind())));
  }
  const auto& kernel = static_cast<const KernelTask&>(task).kernel();
  if (kernel.type != KernelType::kAiCpu) return {};
  return Status(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
                fmt::format("a task group holds no kernels of AI CPUs, which {} is", kernel.name));
}

Status TaskUpdate::add(TaskPointer task) {
  if (Status status = TaskGroup::check_kind(*task); !status.ok()) return status;
  const auto kernel = std::static_pointer_cast<const KernelTask>(task);
  const size_t index = kernels.size();
  if (index >= group->nodes.size()) {
    return Status(ACL_ERROR_RT_INTERNAL_ERROR,
                  fmt::format("the task update launches more kernels than the {} that were recorded: {}",
                              group->nodes.size(), kernel->kernel().name));
  }
  const auto& recorded = static_cast<const KernelTask&>(*group->nodes[index]->task).kernel();
  if (recorded.type != kernel->kernel().type) {
    return Status(ACL_ERROR_RT_INTERNAL_ERROR,
                  fmt::format("launch {} of the task update, {}, is of another kernel type than the recorded {}", index,
                              kernel->kernel().name, recorded.name));
  }
  kernels.push_back(kernel);
  return {};
}

Status TaskUpdate::check_complete() const {
  if (kernels.size() == group->nodes.size()) return {};
  return Status(ACL_ERROR_RT_INTERNAL_ERROR, fmt::format("the task update launched {} kernels, and {} were recorded",
                                                         kernels.size(), group->nodes.size()));
}

Status UpdateTask::run(TaskContext& context) const {
  const Lock lock(Runtime::instance().mutex());
  Validation::instance().group_rewritten(group_.get(), *this, context.line);
  // A graph that is gone takes no harm: the nodes live as long as the group.
  for (size_t i = 0; i < kernels_.size(); ++i) group_->nodes[i]->task = kernels_[i];
  return {};
}

double UpdateTask::account(const Profile& profile, bool /*in_graph*/, DeviceStatistics& statistics) const {
  ++statistics.other_tasks;
  statistics.updates += kernels_.size();
  return profile.timing.task * static_cast<double>(std::max<size_t>(kernels_.size(), 1));
}

Status begin_task_group(Stream& stream) {
  if (!stream.device().profile.features.task_groups) return absent_groups();
  if (stream.update) return Status(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task update is open on the stream");
  if (!stream.capture) {
    return Status(ACL_ERROR_RT_STREAM_NOT_CAPTURED, fmt::format("stream {} is not capturing", stream.id));
  }
  Capture& capture = *stream.capture;
  if (!capture.active()) return capture.invalidated();
  if (capture.group) return Status(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group is open already");
  capture.group = std::make_shared<TaskGroup>();
  capture.group->graph = capture.graph;
  capture.group->owner = &stream;
  return {};
}

Status end_task_group(Stream& stream, aclrtTaskGrp* handle) {
  if (!stream.device().profile.features.task_groups) return absent_groups();
  if (!stream.capture) {
    return Status(ACL_ERROR_RT_STREAM_NOT_CAPTURED, fmt::format("stream {} is not capturing", stream.id));
  }
  Capture& capture = *stream.capture;
  if (!capture.group || capture.group->owner != &stream) {
    return Status(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "no task group was begun on the stream");
  }
  const std::shared_ptr<TaskGroup> group = std::move(capture.group);
  capture.group = nullptr;
  if (!capture.active()) return capture.invalidated();
  if (!group->error.ok()) return group->error;
  group->handle = Runtime::instance().handles().add(group);
  capture.graph->groups.push_back(group);
  *handle = group->handle;
  return {};
}

Status begin_task_update(Stream& stream, aclrtTaskGrp handle) {
  if (!stream.device().profile.features.task_groups) return absent_groups();
  if (stream.capture) {
    return Status(ACL_ERROR_RT_STREAM_CAPTURED, fmt::format("stream {} is capturing", stream.id));
  }
  if (stream.bound) return Status(ACL_ERROR_RT_STREAM_MODEL, fmt::format("stream {} belongs to a graph", stream.id));
  if (stream.update) return Status(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task update is open on the stream already");
  const std::shared_ptr<TaskGroup> group = Runtime::instance().handles().find<TaskGroup>(handle);
  if (!group) return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no task group of a live graph", handle));
  if (group->updating) return Status(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "the task group is being updated elsewhere");
  group->updating = true;
  stream.update = std::make_shared<TaskUpdate>(group);
  return {};
}

Status end_task_update(Stream& stream) {
  if (!stream.device().profile.features.task_groups) return absent_groups();
  if (stream.capture) {
    return Status(ACL_ERROR_RT_STREAM_CAPTURED, fmt::format("stream {} is capturing", stream.id));
  }
  if (!stream.update) return Status(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "no task update was begun on the stream");
  const std::shared_ptr<TaskUpdate> update = std::move(stream.update);
  stream.update = nullptr;
  update->group->updating = false;
  if (Status status = update->check_complete(); !status.ok()) return status;
  stream.enqueue(std::make_shared<UpdateTask>(*update), stream.device().profile.timing.host_call);
  return {};
}

}  // namespace reprise::emulator
