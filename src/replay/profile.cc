#include "replay/profile.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/log.h"

namespace reprise::replay {
namespace {

int64_t profile_clock() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

bool is_step_span(std::string_view name) {
  return name.starts_with(kDecodeStepSpan) || name.starts_with(kPromptStepSpan);
}

Profile::Profile(device::Device& device, int64_t most_steps, std::function<void()> on_last_step)
    : device_(&device),
      most_steps_(most_steps),
      on_last_step_(std::move(on_last_step)),
      allocated_before_(device.memory_info().allocated_bytes),
      begin_(profile_clock()) {
  device.set_observer(this);
}

Profile::~Profile() { stop(); }

void Profile::stop() {
  if (device_ == nullptr) return;
  device::Device& device = *std::exchange(device_, nullptr);
  if (device.observer() == this) device.set_observer(nullptr);
  end_ = profile_clock();
}

template <typename Record>
void Profile::keep(std::vector<Record>& records, Record record) {
  if (records.size() < kMostRecords) {
    records.push_back(std::move(record));
  } else {
    ++dropped_;
  }
}

Profile::Thread& Profile::this_thread() {
  const auto [place, fresh] = threads_.try_emplace(std::this_thread::get_id());
  if (fresh) place->second.number = static_cast<uint32_t>(threads_.size() - 1);
  return place->second;
}

void Profile::on_work(const device::WorkRecord& record) {
  const std::lock_guard lock(mutex_);
  keep(work_, record);
}

void Profile::on_memory(const device::MemoryRecord& record) {
  const int64_t now = profile_clock();
  const std::lock_guard lock(mutex_);
  keep(memory_, Memory{record, now});
}

void Profile::begin_span(std::string_view name, uint16_t label) {
  const int64_t now = profile_clock();
  const std::lock_guard lock(mutex_);
  Thread& thread = this_thread();
  thread.open.push_back({std::string(name), label, thread.number, now, 0, 0});
}

void Profile::end_span() {
  const int64_t now = profile_clock();
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    Thread& thread = this_thread();
    // One that was open when the profile began has no beginning here.
    if (thread.open.empty()) return;
    Span span = std::move(thread.open.back());
    thread.open.pop_back();
    span.end = now;
    if (!thread.open.empty()) thread.open.back().inner += span.end - span.begin;
    if (is_step_span(span.name)) is_last = ++steps_ == most_steps_;
    keep(spans_, std::move(span));
  }
  if (!is_last || !on_last_step_) return;
  try {
    on_last_step_();
  } catch (const std::exception& error) {
    log_error("ending a profile: {}", error.what());
  }
}

}  // namespace reprise::replay
