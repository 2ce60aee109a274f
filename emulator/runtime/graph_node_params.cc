#include "emulator/runtime/graph_node_params.h"

#include <fmt/format.h>

#include "emulator/runtime/event_calls.h"
#include "emulator/runtime/kernel_task.h"
#include "emulator/runtime/notify.h"
#include "emulator/runtime/task_group.h"

namespace reprise::emulator {
namespace {

// Whichever event the task uses; null for an edge inside the graph, whose event is the runtime's own.
const Event* event_of(const Task& task) {
  if (const auto* record = dynamic_cast<const EventRecordTask*>(&task)) return record->event().get();
  if (const auto* wait = dynamic_cast<const EventWaitTask*>(&task)) return wait->event().get();
  if (const auto* reset = dynamic_cast<const EventResetTask*>(&task)) return reset->event().get();
  return nullptr;
}

Status stage_kernel(GraphNode& node, const aclmdlRIKernelTaskParams& params) {
  const Kernel* kernel = nullptr;
  if (Status status = find_kernel(params.funcHandle, &kernel); !status.ok()) return status;
  const auto& recorded = static_cast<const KernelTask&>(*node.task).kernel();
  if (kernel->type != recorded.type) {
    return Status(ACL_ERROR_RT_PARAM_INVALID,
                  fmt::format("kernel {} is of another type than {}", kernel->name, recorded.name));
  }
  if (params.numBlocks == 0 || (params.argsSize > 0 && !params.args)) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("kernel {} without blocks or arguments", kernel->name));
  }
  if (Status status = check_arguments(*kernel, params.args, params.argsSize); !status.ok()) return status;
  node.staged_task = std::make_shared<KernelTask>(kernel, params.numBlocks, params.args, params.argsSize);
  return {};
}

}  // namespace

aclmdlRITaskType type_of(const Task& task) {
  switch (task.kind()) {
    case TaskKind::kKernel:
      return ACL_MODEL_RI_TASK_KERNEL;
    case TaskKind::kEventRecord:
    case TaskKind::kEdgeRecord:
      return ACL_MODEL_RI_TASK_EVENT_RECORD;
    case TaskKind::kEventWait:
    case TaskKind::kEdgeWait:
      return ACL_MODEL_RI_TASK_EVENT_WAIT;
    case TaskKind::kEventReset:
      return ACL_MODEL_RI_TASK_EVENT_RESET;
    case TaskKind::kValueWrite:
      return ACL_MODEL_RI_TASK_VALUE_WRITE;
    case TaskKind::kValueWait:
      return ACL_MODEL_RI_TASK_VALUE_WAIT;
    default:
      return ACL_MODEL_RI_TASK_DEFAULT;
  }
}

Status get_params(const GraphNode& node, aclmdlRITaskParams& params) {
  const Task& task = node.staged_task ? *node.staged_task : *node.task;
  params = {};
  params.type = type_of(task);
  if (const std::shared_ptr<TaskGroup> group = node.group.lock()) params.taskGrp = group->handle;
  const Event* event = event_of(task);
  aclrtEvent handle = event ? event->handle : nullptr;
  const uint32_t flags = event ? event->flags : 0;
  switch (params.type) {
    case ACL_MODEL_RI_TASK_KERNEL: {
      const auto& kernel = static_cast<const KernelTask&>(task);
      params.kernelTaskParams.funcHandle = const_cast<Kernel*>(&kernel.kernel());
      params.kernelTaskParams.args = const_cast<std::byte*>(kernel.arguments().data());
      params.kernelTaskParams.isHostArgs = 1;
      params.kernelTaskParams.argsSize = kernel.arguments().size();
      params.kernelTaskParams.numBlocks = kernel.blocks();
      break;
    }
    case ACL_MODEL_RI_TASK_EVENT_RECORD:
      params.eventRecordTaskParams = {handle, flags, 0};
      break;
    case ACL_MODEL_RI_TASK_EVENT_WAIT:
      params.eventWaitTaskParams = {handle, flags, 0};
      break;
    case ACL_MODEL_RI_TASK_EVENT_RESET:
      params.eventResetTaskParams = {handle, flags, 0};
      break;
    case ACL_MODEL_RI_TASK_VALUE_WRITE: {
      const auto& write = static_cast<const ValueWriteTask&>(task);
      params.valueWriteTaskParams = {write.address, write.value};
      break;
    }
    case ACL_MODEL_RI_TASK_VALUE_WAIT: {
      const auto& wait = static_cast<const ValueWaitTask&>(task);
      params.valueWaitTaskParams = {wait.address, wait.value, wait.comparison};
      break;
    }
    default:
      break;
  }
  return {};
}

Status stage_params(GraphNode& node, const aclmdlRITaskParams& params) {
  if (params.type != type_of(*node.task)) {
    return Status(ACL_ERROR_RT_PARAM_INVALID,
                  fmt::format("the task is of type {}, not {}", static_cast<int>(type_of(*node.task)),
                              static_cast<int>(params.type)));
  }
  switch (params.type) {
    case ACL_MODEL_RI_TASK_KERNEL:
      return stage_kernel(node, params.kernelTaskParams);
    case ACL_MODEL_RI_TASK_VALUE_WRITE:
      node.staged_task =
          std::make_shared<ValueWriteTask>(params.valueWriteTaskParams.devAddr, params.valueWriteTaskParams.value);
      return {};
    case ACL_MODEL_RI_TASK_VALUE_WAIT: {
      const aclmdlRIValueWaitTaskParams& wait = params.valueWaitTaskParams;
      if (wait.flag > ACL_VALUE_WAIT_NOR) {
        return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no comparison of a value wait", wait.flag));
      }
      node.staged_task = std::make_shared<ValueWaitTask>(wait.devAddr, wait.value, wait.flag);
      return {};
    }
    default:
      return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                    fmt::format("a {} cannot be given other parameters", name_of(node.task->kind())));
  }
}

void apply_staged(CapturedGraph& graph) {
  for (const std::unique_ptr<InnerStream>& stream : graph.streams) {
    for (const std::shared_ptr<GraphNode>& node : stream->nodes) {
      if (node->staged_task) node->task = std::move(node->staged_task);
      node->staged_task = nullptr;
      node->disabled = node->staged_disabled;
    }
  }
}

}  // namespace reprise::emulator
