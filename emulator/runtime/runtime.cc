#include "emulator/runtime/runtime.h"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/runtime/capture.h"
#include "emulator/runtime/captured_graph.h"
#include "emulator/runtime/context.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/event.h"
#include "emulator/runtime/notify.h"
#include "emulator/runtime/settings.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/thread_state.h"

namespace reprise::emulator {

Runtime& Runtime::instance() {
  static Runtime& runtime = *new Runtime;
  return runtime;
}

Status Runtime::initialize() {
  const Lock lock(mutex_);
  if (initialized_) return Status(ACL_ERROR_REPEAT_INITIALIZE, "aclInit() was called before");
  if (Status status = Profile::from_environment(profile_); !status.ok()) return status;
  execute_ = true;
  bool poison = false;
  if (Status status = read_switch("REPRISE_ACL_EXECUTE", execute_); !status.ok()) return status;
  if (Status status = read_switch("REPRISE_ACL_POISON", poison); !status.ok()) return status;
  for (uint32_t id = 0; id < profile_.devices; ++id) {
    devices_.push_back(std::make_shared<Device>(static_cast<int32_t>(id), profile_, execute_, poison));
  }
  initialized_ = true;
  return {};
}

Status Runtime::finalize() {
  Lock lock(mutex_);
  if (!initialized_ || ending_)
    return Status(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize() was called before, or aclInit() was not");
  // Nothing new can begin from here on, whatever other threads call while the lock is let go.
  ending_ = true;
  for (const std::shared_ptr<Device>& device : devices_) {
    reset_device(lock, *device);
  }
  progress_.notify_all();
  lock.unlock();
  threads_.stop();
  lock.lock();
  devices_.clear();
  reports_.clear();
  handles_ = HandleTable(handles_.next());
  std::fill(std::begin(system_parameters_), std::end(system_parameters_), 0);
  pinned_.free_all();
  ending_ = false;
  initialized_ = false;
  return {};
}

Device* Runtime::device(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < devices_.size() ? devices_[static_cast<size_t>(id)].get() : nullptr;
}

Status Runtime::open_device(int32_t id, Device** device) {
  if (ending_) return Status(ACL_ERROR_RT_INVALID_DEVICEID, "another thread calls aclFinalize()");
  if (id < 0 || static_cast<size_t>(id) >= devices_.size()) {
    return Status(ACL_ERROR_RT_INVALID_DEVICEID,
                  fmt::format("there is no device {}; there are {}", id, devices_.size()));
  }
  *device = devices_[static_cast<size_t>(id)].get();
  (*device)->memory.reserve();
  return {};
}

Status Runtime::create_context(Device& device, std::shared_ptr<Context>& context) {
  auto made = std::make_shared<Context>(device);
  if (Status status = create_stream(*made, 0, 0, made->default_stream); !status.ok()) return status;
  made->handle = handles_.add(made);
  device.contexts.insert(made);
  context = std::move(made);
  return {};
}

void Runtime::destroy_context(Lock& lock, std::shared_ptr<Context> context) {
  // What other threads call on it finds no context any more, though its streams end one after another.
  handles_.remove(context->handle);
  if (context->device.primary == context) context->device.primary = nullptr;
  // A capture and its streams hold each other.
  while (!context->captures.empty()) {
    const std::shared_ptr<Capture> capture = *context->captures.begin();
    capture->graph->state = CapturedGraph::State::kFault;
    capture->leave();
  }
  // Destroying a stream lets go of the lock, so each is looked up anew.
  while (!context->streams.empty()) {
    const std::shared_ptr<Stream> stream = *context->streams.begin();
    stream->abort(lock, /*report=*/false);
    destroy_stream(lock, stream);
  }
  context->device.contexts.erase(context);
}

void Runtime::reset_device(Lock& lock, Device& device) {
  while (!device.contexts.empty()) destroy_context(lock, *device.contexts.begin());
  for (const auto& graph : handles_.select<CapturedGraph>([&](const auto& it) { return &it.device == &device; })) {
    release_graph(*graph);
  }
  for (const auto& event : handles_.select<Event>([&](const auto& it) { return &it.device == &device; })) {
    handles_.remove(event->handle);
    device.events.give_back();
  }
  for (const auto& notify : handles_.select<Notify>([&](const auto& it) { return &it.device == &device; })) {
    handles_.remove(notify->handle);
    device.notifies.give_back();
  }
  device.clear();
  // Threads may wait for what is no more.
  progress_.notify_all();
}

Status Runtime::create_stream(Context& context, uint32_t flags, uint32_t priority, std::shared_ptr<Stream>& stream) {
  Device& device = context.device;
  if (!device.streams.take()) {
    return Status(ACL_ERROR_RT_NO_STREAM_RESOURCE,
                  fmt::format("stream resources insufficient: all {} streams of device {} are taken",
                              device.streams.limit(), device.id));
  }
  stream = std::make_shared<Stream>(context.shared_from_this(), next_id(), flags, priority);
  stream->handle = handles_.add(stream);
  context.streams.insert(stream);
  return {};
}

void Runtime::destroy_stream(Lock& /*lock*/, const std::shared_ptr<Stream>& stream) {
  const std::shared_ptr<Context> context = stream->context.lock();
  // Two threads may end its context at once.
  if (!context || context->streams.erase(stream) == 0) return;
  if (!stream->handle) return;  // one of a call's own takes none of the device's
  handles_.remove(stream->handle);
  stream->device().streams.give_back();
  if (context->default_stream == stream) context->default_stream = nullptr;
}

Status Runtime::current_context(std::shared_ptr<Context>& context) const {
  context = ThreadState::current().context.lock();
  if (context && handles_.find<Context>(context->handle)) return {};
  return Status(ACL_ERROR_RT_CONTEXT_NULL, "this thread has no current context; aclrtSetDevice() gives it one");
}

Status Runtime::current_device(Device** device) const {
  std::shared_ptr<Context> context;
  if (Status status = current_context(context); !status.ok()) return status;
  *device = &context->device;
  return {};
}

Status Runtime::find_stream(aclrtStream handle, std::shared_ptr<Stream>& stream) const {
  std::shared_ptr<Context> context;
  if (Status status = current_context(context); !status.ok()) return status;
  if (!handle) {
    stream = context->default_stream;
    if (!stream) return Status(ACL_ERROR_RT_CONTEXT_NULL, "the context of this thread is being destroyed");
    return {};
  }
  stream = handles_.find<Stream>(handle);
  if (!stream) {
    return Status(ACL_ERROR_RT_INVALID_HANDLE,
                  fmt::format("{} is no stream{}", handle,
                              handles_.was_destroyed<Stream>(handle) ? " any more: it was destroyed" : ""));
  }
  if (stream->context.lock() != context) {
    return Status(ACL_ERROR_RT_STREAM_CONTEXT,
                  fmt::format("stream {} belongs to another context than this thread's", stream->id));
  }
  return {};
}

}  // namespace reprise::emulator
