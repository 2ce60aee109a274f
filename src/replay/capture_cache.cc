#include "replay/capture_cache.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "device/device_lost.h"
#include "device/observer.h"

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

std::string GuardMiss::to_string() const {
  return fmt::format("{}: guard ({} == {}) failed: {} = {}", op, choice, captured, choice, now);
}

bool CaptureCache::Entry::is_broken() const {
  return update_failed || std::any_of(variants.begin(), variants.end(), [](const auto& v) { return v->update_failed; });
}

int64_t CaptureCache::Entry::eager_nodes() const {
  return std::count_if(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.graph == nullptr; });
}

std::string CaptureCache::Entry::eager_operators() const {
  std::map<std::string, int64_t> counts;
  for (const Piece& piece : pieces) {
    if (piece.graph == nullptr) ++counts[bound->op_name(piece.node)];
  }
  std::string text;
  for (const auto& [name, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  return text;
}

int64_t CaptureCache::Entry::launches() const {
  int64_t sum = 0;
  for (const Piece& piece : pieces) {
    if (piece.graph != nullptr) sum += piece.graph->statistics().launches;
  }
  return sum;
}

size_t CaptureCache::Entry::bytes() const {
  size_t sum = 0;
  for (const Piece& piece : pieces) {
    if (piece.graph != nullptr) sum += static_cast<size_t>(piece.graph->statistics().bytes);
  }
  return sum;
}

std::string CaptureCache::Entry::core_choice() const {
  return pieces.size() == 1 ? pieces[0].graph->core_choice() : std::string();
}

std::string CaptureCache::Entry::to_text() const {
  std::string text;
  for (const Piece& piece : pieces) {
    text += piece.graph != nullptr ? piece.graph->to_text() : fmt::format("eager {}\n", bound->op_name(piece.node));
  }
  return text;
}

std::string CaptureCache::Entry::to_json() const {
  std::string json;
  for (const Piece& piece : pieces) {
    json += json.empty() ? "[" : ",\n";
    json += piece.graph != nullptr ? piece.graph->to_json()
                                   : fmt::format(R"({{"eager": "{}"}})", bound->op_name(piece.node));
  }
  return json + "]\n";
}

CaptureCache::CaptureCache(device::Device& device, device::UpdateOrder order, CaptureOptions options)
    : device_(device), order_(order), options_(std::move(options)) {
  capture_stream_ = device.create_stream({0, "capture"});
  if (order == device::UpdateOrder::kReplayThenUpdate) {
    update_stream_ = device.create_stream({device.capabilities().greatest_priority, "update"});
  }
}

CaptureCache::~CaptureCache() = default;

CaptureCache::Entry& CaptureCache::capture(std::span<const int64_t> key, std::unique_ptr<compile::BoundGraph> bound,
                                           std::span<const ops::HostList> lists, device::CoreLimit limit) {
  return *(entries_[CaptureKey(key.begin(), key.end())] = capture_graph(std::move(bound), lists, limit));
}

CaptureCache::Entry& CaptureCache::capture_variant(Entry& entry, std::span<const ops::HostList> lists) {
  return *entry.variants.emplace_back(capture_graph(entry.bound, lists, entry.limit));
}

std::unique_ptr<CaptureCache::Entry> CaptureCache::capture_graph(std::shared_ptr<compile::BoundGraph> bound,
                                                                 std::span<const ops::HostList> lists,
                                                                 device::CoreLimit limit) {
  const device::HostSpan span(device_, "capture_graph");
  capture_stream_->set_core_limit(limit);
  const auto start = std::chrono::steady_clock::now();
  auto entry = std::make_unique<Entry>();
  entry->bound = std::move(bound);
  entry->limit = limit;
  if (order_ == device::UpdateOrder::kReplayThenUpdate) entry->replayed = device_.create_event();
  int64_t first = 0;
  for (int64_t node = 0; node < entry->bound->size(); ++node) {
    const auto& splitting = options_.splitting_ops;
    if (std::find(splitting.begin(), splitting.end(), entry->bound->op_name(node)) == splitting.end()) continue;
    capture_piece(*entry, first, node, lists);
    entry->pieces.push_back({nullptr, node});
    first = node + 1;
  }
  capture_piece(*entry, first, entry->bound->size(), lists);
  entry->milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return entry;
}

void CaptureCache::capture_piece(Entry& entry, int64_t first, int64_t last, std::span<const ops::HostList> lists) {
  if (first == last && !entry.pieces.empty()) return;
  const size_t gates_before = entry.gates.size();
  Recorder recorder(entry, order_ == device::UpdateOrder::kReplayThenUpdate ? &device_ : nullptr);
  capture_stream_->begin_capture(options_.mode);
  try {
    entry.bound->run(*capture_stream_, lists, &recorder, first, last);
  } catch (...) {
    // The half graph has to go before the stream can be used again.
    discard([&] { capture_stream_->end_capture(); });
    throw;
  }
  const device::HostSpan span(device_, "end_capture");
  entry.pieces.push_back({capture_stream_->end_capture(), -1, entry.gates.size() - gates_before});
}

void CaptureCache::queue(Entry& entry, device::Stream& stream, std::span<const ops::HostList> lists, size_t& gates) {
  for (Piece& piece : entry.pieces) {
    if (piece.graph != nullptr) {
      piece.graph->replay(stream);
      gates += piece.gates;
    } else {
      entry.bound->run(stream, lists, nullptr, piece.node, piece.node + 1);
    }
  }
}

CaptureCache::Entry* CaptureCache::find(std::span<const int64_t> key) {
  const auto place = entries_.find(key);
  return place == entries_.end() ? nullptr : place->second.get();
}

void CaptureCache::erase(std::span<const int64_t> key) {
  const auto place = entries_.find(key);
  if (place != entries_.end()) entries_.erase(place);
}

std::optional<GuardMiss> CaptureCache::first_miss(const Entry& entry) {
  for (const ops::UpdateRecord& record : entry.records) {
    const std::vector<ops::Choice>& now = record.tiling->choices;
    for (size_t i = 0; i < std::max(now.size(), record.choices.size()); ++i) {
      if (i >= now.size() || i >= record.choices.size() || now[i].name != record.choices[i].name) {
        throw Error(ErrorCode::kInternal,
                    "{}: which choices its plan makes depends on something that it does not choose", record.op);
      }
      if (now[i].value == record.choices[i].value) continue;
      return GuardMiss{record.op, now[i].name, record.choices[i].value, now[i].value};
    }
  }
  return std::nullopt;
}

std::optional<GuardMiss> CaptureCache::replay(Entry& entry, device::Stream& stream,
                                              std::span<const ops::HostList> lists) {
  for (ops::UpdateRecord& record : entry.records) record.plan(lists);
  const std::optional<GuardMiss> miss = first_miss(entry);
  if (!miss) {
    update_and_queue(entry, stream, lists);
    return std::nullopt;
  }
  // All variants have the same nodes, which are planned by now.
  for (const std::unique_ptr<Entry>& variant : entry.variants) {
    if (first_miss(*variant)) continue;
    update_and_queue(*variant, stream, lists);
    return std::nullopt;
  }
  return miss;
}

void CaptureCache::update_and_queue(Entry& entry, device::Stream& stream, std::span<const ops::HostList> lists) {
  const auto update = [&entry](device::Stream& update_stream, ops::UpdateRecord& record) {
    entry.update_failed = true;  // until it is done
    update_stream.begin_task_update(*record.group);
    try {
      record.reissue(update_stream);
    } catch (...) {
      // The update ends without effect, so that the stream can be used again.
      discard([&] { update_stream.end_task_update(); });
      throw;
    }
    update_stream.end_task_update();
    entry.update_failed = false;
  };
  const device::HostSpan span(device_, "update_and_replay");
  if (order_ == device::UpdateOrder::kUpdateThenReplay) {
    for (ops::UpdateRecord& record : entry.records) update(stream, record);
    size_t gates = 0;
    queue(entry, stream, lists, gates);
    return;
  }
  // An earlier replay may still wait in its stream for the gates that were opened for it.
  update_stream_->wait(*entry.replayed);
  size_t closed = 0;  // the end of the gates in front of which something waits
  size_t opened = 0;
  try {
    queue(entry, stream, lists, closed);
    stream.record(*entry.replayed);
    for (ops::UpdateRecord& record : entry.records) {
      update(*update_stream_, record);
      update_stream_->record(*entry.gates[opened]);
      ++opened;
    }
  } catch (...) {
    // What is queued comes to an end with the lists that it has; closed gates would stop the stream for ever. Those of
    // what is not queued must stay closed for the next replay.
    if (opened < closed) open_gates(std::span(entry.gates).subspan(opened, closed - opened));
    throw;
  }
}

void CaptureCache::open_gates(std::span<const std::unique_ptr<device::Event>> gates) {
  constexpr int kAttempts = 3;
  for (const auto& gate : gates) {
    for (int attempt = 1;; ++attempt) {
      try {
        update_stream_->record(*gate);
        break;
      } catch (const Error& error) {
        if (attempt < kAttempts) continue;
        throw device::DeviceLost(
            Error(ErrorCode::kInternal, "a replay waits for a signal that the device does not take: {}", error.what()));
      }
    }
  }
}

}  // namespace reprise::replay
