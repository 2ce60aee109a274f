#include "replay/capture_cache.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace reprise::replay {
namespace {

/// Collects the records of one capture; with gates, each task group first waits for an event of its own.
class Recorder final : public ops::UpdateRecorder {
 public:
  Recorder(CaptureCache::Entry& entry, device::Device* gating_device) : entry_(entry), gating_device_(gating_device) {}

  void before_group(device::Stream& stream) override {
    if (gating_device_ == nullptr) return;
    entry_.gates.push_back(gating_device_->create_event(device::EventKind::kExternal));
    stream.wait(*entry_.gates.back());
  }
  void record(ops::UpdateRecord record) override { entry_.records.push_back(std::move(record)); }

 private:
  CaptureCache::Entry& entry_;
  device::Device* gating_device_;
};

/// Ends something that has failed already; why is in the first error, so a second one is only logged.
template <typename End>
void discard(End end) {
  try {
    end();
  } catch (const Error& error) {
    log_debug("ending what failed: {}", error.what());
  }
}

}  // namespace

CaptureCache::CaptureCache(device::Device& device, device::UpdateOrder order) : device_(device), order_(order) {
  capture_stream_ = device.create_stream({0, "capture"});
  if (order == device::UpdateOrder::kReplayThenUpdate) {
    update_stream_ = device.create_stream({device.capabilities().greatest_priority, "update"});
  }
}

CaptureCache::~CaptureCache() = default;

CaptureCache::Entry& CaptureCache::capture(CaptureKey key, std::unique_ptr<compile::BoundGraph> bound,
                                           std::span<const ops::HostList> lists) {
  const auto start = std::chrono::steady_clock::now();
  auto entry = std::make_unique<Entry>();
  entry->bound = std::move(bound);
  Recorder recorder(*entry, order_ == device::UpdateOrder::kReplayThenUpdate ? &device_ : nullptr);
  capture_stream_->begin_capture(device::CaptureMode::kThreadLocal);
  try {
    entry->bound->run(*capture_stream_, lists, &recorder);
  } catch (...) {
    // The half graph has to go before the stream can be used again.
    discard([&] { capture_stream_->end_capture(); });
    throw;
  }
  entry->graph = capture_stream_->end_capture();
  entry->milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return *(entries_[key] = std::move(entry));
}

CaptureCache::Entry* CaptureCache::find(CaptureKey key) {
  const auto place = entries_.find(key);
  return place == entries_.end() ? nullptr : place->second.get();
}

void CaptureCache::replay(Entry& entry, device::Stream& stream, std::span<const ops::HostList> lists) {
  const auto update = [&](device::Stream& update_stream, ops::UpdateRecord& record) {
    update_stream.begin_task_update(*record.group);
    try {
      record.reissue(update_stream, lists);
    } catch (...) {
      // The update ends without effect, so that the stream can be used again.
      discard([&] { update_stream.end_task_update(); });
      throw;
    }
    update_stream.end_task_update();
    ++updates_;
  };
  if (order_ == device::UpdateOrder::kUpdateThenReplay) {
    for (ops::UpdateRecord& record : entry.records) update(stream, record);
    entry.graph->replay(stream);
    return;
  }
  entry.graph->replay(stream);
  size_t opened = 0;
  const auto open_gate = [&] { update_stream_->record(*entry.gates[opened++]); };
  try {
    for (ops::UpdateRecord& record : entry.records) {
      update(*update_stream_, record);
      open_gate();
    }
  } catch (...) {
    // The replay is queued. With the lists that it has it comes to an end; closed gates would stop the stream for ever.
    while (opened < entry.gates.size()) open_gate();
    throw;
  }
}

size_t CaptureCache::bytes() const {
  size_t bytes = 0;
  for (const auto& [_, entry] : entries_) bytes += static_cast<size_t>(entry->graph->statistics().bytes);
  return bytes;
}

}  // namespace reprise::replay
