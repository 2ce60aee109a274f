#include "emulator/runtime/submit.h"

#include "emulator/runtime/capture.h"
#include "emulator/runtime/captured_graph.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/task_group.h"
#include "emulator/runtime/thread_state.h"
#include "emulator/runtime/validation/validation.h"

namespace reprise::emulator {

Status submit(Stream& stream, TaskPointer task, double host_seconds) {
  if (!stream.device().error().ok()) return stream.device().error();
  Validation::instance().submitted(*task);
  // Recording a call costs the host as much as running it; Stream::enqueue() pays by itself.
  if (stream.update || stream.capture || stream.bound) ThreadState::current().clock += host_seconds;
  if (stream.update) return stream.update->add(std::move(task));
  if (stream.capture) return stream.capture->append(stream, std::move(task));
  if (stream.bound) return stream.bound->append(*stream.inner, std::move(task));
  stream.enqueue(std::move(task), host_seconds);
  return {};
}

}  // namespace reprise::emulator
