#include "device/ascend/graph_state.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "base/log.h"
#include "device/ascend/acl_stream.h"

namespace reprise::device::ascend {
namespace {

/// A name for a file that nobody else has.
std::filesystem::path dump_path() {
  static std::atomic<uint64_t> dumps{0};
  return std::filesystem::temp_directory_path() / fmt::format("reprise_graph_{}_{}.json", ::getpid(), ++dumps);
}

}  // namespace

void HostCall::run(void* call) {
  const auto* host_call = static_cast<const HostCall*>(call);
  try {
    host_call->function(host_call->data);
  } catch (...) {
    host_call->errors->put(std::current_exception());
  }
}

void HostCall::run_once(void* call) {
  const std::unique_ptr<HostCall> owned(static_cast<HostCall*>(call));
  run(owned.get());
}

void GraphState::note_unmarked(const std::shared_ptr<StreamProgress>& stream) {
  const uint64_t sequence = stream->submitted.load(std::memory_order_acquire);
  const auto known =
      std::find_if(unmarked.begin(), unmarked.end(), [&](const auto& entry) { return entry.first == stream; });
  if (known == unmarked.end()) {
    unmarked.emplace_back(stream, sequence);
  } else {
    known->second = sequence;
  }
}

bool GraphState::has_ended() const {
  const AclLibrary& library = *core->library;
  if (last_stream != nullptr && marked) {
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    if (library.aclrtQueryEventStatus(replayed->get(), &status) != ACL_SUCCESS) return true;  // the device is lost
    if (status != ACL_EVENT_RECORDED_STATUS_COMPLETE) return false;
  }
  for (const auto& [progress, sequence] : unmarked) {
    if (progress->done.load(std::memory_order_acquire) >= sequence) continue;
    const uint64_t last = progress->submitted.load(std::memory_order_acquire);
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    if (library.aclrtStreamQuery(progress->raw, &status) != ACL_SUCCESS) continue;
    if (status != ACL_STREAM_STATUS_COMPLETE) return false;
    progress->reach(last);
  }
  return true;
}

void GraphState::destroy() noexcept {
  try {
    core->enter();
    if (raw != nullptr) {
      const int code = core->library->aclmdlRIDestroy(std::exchange(raw, nullptr));
      log_acl(*core->library, code, "aclmdlRIDestroy", "destroying a captured graph");
    }
    if (replayed != nullptr) core->retire(std::shared_ptr<const RawEvent>(std::move(replayed)));
  } catch (const std::exception& error) {
    log_error("destroying a captured graph: {}", error.what());
  }
  last_stream = nullptr;
  unmarked.clear();
  held.clear();
  events.clear();
  host_calls.clear();
}

AscendCapturedGraph::~AscendCapturedGraph() {
  if (state_->capturing) return;  // given up by its capture
  try {
    close(state_->core->destroy_wait_ms());
  } catch (const std::exception& error) {
    // The graph stays until its replays have ended; only the callbacks come too early.
    log_error("captured graph: {}", error.what());
    state_->core->bury(state_);
    run_callbacks();
  }
}

GraphState& AscendCapturedGraph::open_state() const {
  if (closed_) throw Error(ErrorCode::kFailedPrecondition, "the graph is closed");
  return *state_;
}

void AscendCapturedGraph::replay(Stream& stream) {
  auto* own = dynamic_cast<AclStream*>(&stream);
  if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, "the stream belongs to another device");
  {
    const std::lock_guard lock(state_->core->mutex);
    if (state_->capturing) throw Error(ErrorCode::kGraphCapturing, "cannot replay a graph that is being captured");
    if (closed_) throw Error(ErrorCode::kFailedPrecondition, "cannot replay a graph after close()");
    if (state_->damaged) {
      throw Error(ErrorCode::kFailedPrecondition, "cannot replay a graph with a task update that broke off")
          .remedy("capture it again");
    }
  }
  own->queue_replay(*state_);
}

GraphStatistics AscendCapturedGraph::statistics() const {
  const std::lock_guard lock(state_->core->mutex);
  return open_state().record.statistics();
}

std::string AscendCapturedGraph::to_text() const {
  const std::lock_guard lock(state_->core->mutex);
  return open_state().record.to_text();
}

std::string AscendCapturedGraph::runtime_dump() const {
  const AscendCore& core = *state_->core;
  if (!core.features.has(Feature::kGraphDump) || state_->capturing) return {};
  const std::filesystem::path path = dump_path();
  core.enter();
  const int code = core.library->aclmdlRIDebugJsonPrint(state_->raw, path.c_str(), ACL_MODEL_RI_JSON_VERBOSE);
  if (code != ACL_SUCCESS) return acl_error(*core.library, code, "aclmdlRIDebugJsonPrint", "dumping a graph").what();
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return text;
}

std::string AscendCapturedGraph::to_json() const {
  const std::lock_guard lock(state_->core->mutex);
  const GraphRecord& record = open_state().record;
  return record.to_json(runtime_dump());
}

uint64_t AscendCapturedGraph::hash(bool with_addresses) const {
  const std::lock_guard lock(state_->core->mutex);
  return open_state().record.hash(with_addresses);
}

void AscendCapturedGraph::add_destroy_callback(void (*callback)(void* data), void* data) {
  const std::lock_guard lock(state_->core->mutex);
  callbacks_.push_back({callback, data});
}

void AscendCapturedGraph::close(int timeout_ms) {
  const AscendCore& core = *state_->core;
  {
    const std::lock_guard lock(state_->core->mutex);
    if (state_->capturing) throw Error(ErrorCode::kGraphCapturing, "cannot close a graph that is being captured");
    if (closed_) return;
  }
  core.enter();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    {
      const std::lock_guard lock(state_->core->mutex);
      if (closed_) return;  // another thread was quicker
      if (state_->has_ended()) {
        closed_ = true;
        break;
      }
    }
    if (std::chrono::steady_clock::now() > deadline) {
      if (core.is_lost()) {
        throw Error(ErrorCode::kGraphRunning, "replays of the graph are given up with the device, which is lost");
      }
      throw Error(ErrorCode::kGraphRunning, "replays of the graph have not ended after {} ms", timeout_ms)
          .remedy(core.what_hangs());
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  state_->destroy();
  run_callbacks();
}

void AscendCapturedGraph::run_callbacks() {
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(state_->core->mutex);
    callbacks = std::exchange(callbacks_, {});
  }
  for (const Callback& callback : callbacks) callback.function(callback.data);
}

}  // namespace reprise::device::ascend
