#include "emulator/runtime/condition.h"

#include <fmt/format.h>

#include "emulator/runtime/capture.h"
#include "emulator/runtime/captured_graph.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/replay.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/stream.h"

namespace reprise::emulator {
namespace {

Status check_size(aclmdlRICondTaskType type, uint32_t size) {
  const bool fits = type == ACL_MODEL_RI_COND_IF      ? size == 1 || size == 2
                    : type == ACL_MODEL_RI_COND_WHILE ? size == 1
                                                      : type == ACL_MODEL_RI_COND_SWITCH && size > 0;
  if (fits) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID,
                fmt::format("a conditional task of type {} cannot have {} graphs", static_cast<int>(type), size));
}

}  // namespace

void Condition::assign_default() {
  if (assign_) device_.memory.store_word(address, default_value_);
}

void Condition::release() {
  Runtime::instance().handles().remove(handle);
  // After a reset of the device the memory is gone already.
  (void)device_.memory.free(address);
}

uint64_t Condition::value() const { return device_.memory.load_word(address).value_or(0); }

CapturedGraph* ConditionTask::choose() const {
  const uint64_t value = condition_->value();
  switch (type_) {
    case ACL_MODEL_RI_COND_IF:
      return value != 0 ? bodies_[0].get() : bodies_.size() > 1 ? bodies_[1].get() : nullptr;
    case ACL_MODEL_RI_COND_WHILE:
      return value != 0 ? bodies_[0].get() : nullptr;
    default:
      return value < bodies_.size() ? bodies_[value].get() : nullptr;
  }
}

Status ConditionTask::run(TaskContext& context) const {
  Runtime& runtime = Runtime::instance();
  do {
    CapturedGraph* body = nullptr;
    {
      const Lock lock(runtime.mutex());
      if (context.aborted()) return Status(ACL_ERROR_RT_STREAM_ABORT, "a conditional task was aborted");
      body = choose();
      if (!body || body->streams.empty()) return {};
      for (const std::shared_ptr<Condition>& condition : body->conditions) condition->assign_default();
    }
    Status status = Replay(*body, context.replay->bindings(), context.replay).run(context);
    if (!status.ok()) return status;
  } while (type_ == ACL_MODEL_RI_COND_WHILE);
  return {};
}

std::string ConditionTask::describe() const {
  static constexpr const char* kNames[] = {"if", "while", "switch"};
  return fmt::format("{} with {} graphs", kNames[type_], bodies_.size());
}

Status create_condition(CapturedGraph& graph, uint32_t default_value, uint32_t flag, aclmdlRICondHandle* handle) {
  if (flag > ACL_MODEL_RI_COND_ASSIGN_DEFAULT) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no flag of a condition", flag));
  }
  void* address = nullptr;
  if (Status status = graph.device.memory.allocate(sizeof(uint64_t), false, &address); !status.ok()) return status;
  graph.device.memory.store_word(address, default_value);
  auto condition = std::make_shared<Condition>(graph.device, graph, address, default_value,
                                               flag == ACL_MODEL_RI_COND_ASSIGN_DEFAULT);
  condition->handle = Runtime::instance().handles().add(condition);
  graph.conditions.push_back(condition);
  *handle = condition->handle;
  return {};
}

Status find_condition(aclmdlRICondHandle handle, std::shared_ptr<Condition>& condition) {
  condition = Runtime::instance().handles().find<Condition>(handle);
  if (condition) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no condition of a live graph", handle));
}

Status add_condition_task(const aclmdlRICondTaskParams& parameters, Stream& stream) {
  std::shared_ptr<Condition> condition;
  if (Status status = find_condition(parameters.handle, condition); !status.ok()) return status;
  if (Status status = check_size(parameters.type, parameters.size); !status.ok()) return status;
  if (!stream.capture) {
    return Status(ACL_ERROR_RT_STREAM_NOT_CAPTURED, fmt::format("stream {} is not capturing", stream.id));
  }
  Capture& capture = *stream.capture;
  if (&condition->graph != capture.graph.get()) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, "the condition belongs to another graph than the one that is captured");
  }
  std::vector<std::shared_ptr<CapturedGraph>> bodies;
  Status status;
  for (uint32_t i = 0; i < parameters.size && status.ok(); ++i) {
    std::shared_ptr<CapturedGraph> body;
    status = make_graph(stream.device(), body);
    if (!status.ok()) break;
    body->state = CapturedGraph::State::kBuilding;
    body->parent = capture.graph.get();
    bodies.push_back(std::move(body));
  }
  if (status.ok()) status = capture.append(stream, std::make_shared<ConditionTask>(condition, parameters.type, bodies));
  for (uint32_t i = 0; i < bodies.size(); ++i) {
    if (!status.ok()) {
      release_graph(*bodies[i]);
      continue;
    }
    capture.graph->children.push_back(bodies[i]);
    parameters.modelRIArray[i] = bodies[i]->handle;
  }
  return status;
}

}  // namespace reprise::emulator
