#include "device/cpu/cpu_captured_graph.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "device/cpu/graph_text.h"
#include "device/cpu/queued_stream.h"

namespace reprise::device::cpu {
CpuCapturedGraph::~CpuCapturedGraph() {
  try {
    if (!capturing_) close(kDestroyTimeoutMs);
  } catch (const std::exception& error) {
    // The program stays with the queue that still holds it; only the callbacks come too early.
    log_error("captured graph: {}", error.what());
    run_callbacks();
  }
}

void CpuCapturedGraph::replay(Stream& stream) {
  auto* queued = dynamic_cast<QueuedStream*>(&stream);
  if (queued == nullptr) throw Error(ErrorCode::kInvalidArgument, "the stream belongs to another device");
  const std::unique_lock lock(core_->mutex);
  if (capturing_) throw Error(ErrorCode::kGraphCapturing, "cannot replay a graph that is being captured");
  if (program_ == nullptr) throw Error(ErrorCode::kFailedPrecondition, "cannot replay a graph after close()");
  queued->queue_replay(*core_, program_);
}

std::unique_lock<std::mutex> CpuCapturedGraph::lock_for_reading() const {
  std::unique_lock lock(core_->mutex);
  core_->executor.wait_until_paused(lock);
  if (program_ == nullptr) throw Error(ErrorCode::kFailedPrecondition, "the graph is closed");
  return lock;
}

GraphStatistics CpuCapturedGraph::statistics() const {
  const std::unique_lock lock = lock_for_reading();
  return program_->statistics();
}

std::string CpuCapturedGraph::core_choice() const {
  const std::unique_lock lock = lock_for_reading();
  return program_->thread_choice().to_text();
}

std::string CpuCapturedGraph::to_text() const {
  const std::unique_lock lock = lock_for_reading();
  return graph_text(*program_, core_->memory.map());
}

std::string CpuCapturedGraph::to_json() const {
  const std::unique_lock lock = lock_for_reading();
  return graph_json(*program_, core_->memory.map());
}

uint64_t CpuCapturedGraph::hash(bool with_addresses) const {
  const std::unique_lock lock = lock_for_reading();
  return graph_hash(*program_, core_->memory.map(), with_addresses);
}

void CpuCapturedGraph::add_destroy_callback(void (*callback)(void* data), void* data) {
  const std::unique_lock lock(core_->mutex);
  callbacks_.push_back({callback, data});
}

void CpuCapturedGraph::close(int timeout_ms) {
  std::shared_ptr<GraphProgram> program;
  {
    std::unique_lock lock(core_->mutex);
    if (capturing_) throw Error(ErrorCode::kGraphCapturing, "cannot close a graph that is being captured");
    program = program_;  // another thread may close the graph meanwhile
    if (program == nullptr) return;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    const auto idle = [&] { return program->pending_replays.load(std::memory_order_acquire) == 0; };
    if (!core_->executor.run_until(lock, nullptr, idle, deadline)) {
      throw Error(ErrorCode::kGraphRunning, "{} replays of the graph have not ended after {} ms",
                  program->pending_replays.load(), timeout_ms)
          .remedy("record the external events that it waits for");
    }
    program_.reset();
  }
  run_callbacks();
}

void CpuCapturedGraph::run_callbacks() {
  std::vector<Callback> callbacks;
  {
    const std::unique_lock lock(core_->mutex);
    callbacks = std::exchange(callbacks_, {});
  }
  for (const Callback& callback : callbacks) callback.function(callback.data);
}

}  // namespace reprise::device::cpu
