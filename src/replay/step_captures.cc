#include "replay/step_captures.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/log.h"

namespace reprise::replay {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

StepCaptures::StepCaptures(device::Device& device, device::Stream& stream, const RunnerOptions& options,
                           const std::vector<int32_t>& buckets, const std::vector<int32_t>& prefill_sizes,
                           CaptureOptions capture_options, std::function<StepProgram&(StepKind)> program_of)
    : device_(device),
      stream_(stream),
      options_(options),
      buckets_(buckets),
      prefill_sizes_(prefill_sizes),
      program_of_(std::move(program_of)),
      cache_(device, options.update_order.value_or(device.capabilities().preferred_update_order),
             std::move(capture_options)) {}

StepCaptures::Found StepCaptures::find_for(StepKind kind, int32_t size, const StepBatch& batch) {
  if (beyond_limit(kind, size)) return {nullptr, StepReason::kCaptureLimit};
  if (must_wait(kind, size)) {
    wanted_.add(kind, size, batch);
    return {nullptr, StepReason::kNotCapturedYet};
  }
  const Key key = key_of(kind, size);
  if (!failed_.contains(key)) {
    const CaptureCache::Entry* entry = cache_.find(key);
    if (entry == nullptr) {
      capture_size(kind, size, 0, 1, &batch);
    } else if (entry->is_broken()) {
      log_warning("capturing a step of {} {} again: an update of its graph has failed", size,
                  kind == StepKind::kDecode ? "sequences" : "prompt tokens");
      // First, because the device may not have room for both.
      cache_.erase(key);
      recapture_size(kind, size, batch);
    } else if (options_.force_recapture) {
      recapture_size(kind, size, batch);
    }
  }
  if (failed_.contains(key)) return {nullptr, StepReason::kCaptureFailed};
  return {cache_.find(key), StepReason::kReplayed};
}

StepReason StepCaptures::replay(StepKind kind, int32_t size, CaptureCache::Entry& entry,
                                std::span<const ops::HostList> lists) {
  const std::optional<GuardMiss> miss = cache_.replay(entry, stream_, lists);
  if (!miss) return StepReason::kReplayed;
  const StepReason reason = capture_variant(kind, size, entry, *miss, lists);
  if (reason != StepReason::kReplayed) return reason;
  const std::optional<GuardMiss> second_miss = cache_.replay(entry, stream_, lists);
  if (second_miss) throw Error(ErrorCode::kInternal, "{} for the same lengths", second_miss->to_string());
  return StepReason::kReplayed;
}

bool StepCaptures::capture_wanted() {
  const std::optional<WantedCaptures::Size> wanted = wanted_.take_most_wanted();
  if (!wanted) return false;
  capture_size(wanted->kind, wanted->size, 0, 1, &wanted->last);
  return true;
}

/// Sizes behind the first `capture_limit` of a kind are not captured.
bool StepCaptures::beyond_limit(StepKind kind, int32_t size) {
  const bool decode = kind == StepKind::kDecode;
  const std::vector<int32_t>& sizes = decode ? buckets_ : prefill_sizes_;
  const auto captured = static_cast<size_t>(std::min<int64_t>(options_.capture_limit, INT32_MAX));
  if (sizes.size() <= captured || size < sizes[captured]) return false;
  if (logged_.insert({kind, StepReason::kCaptureLimit}).second) {
    log_warning("capture_limit is {}: steps of {} {} run eagerly; logged once", captured,
                decode ? "batch sizes" : "prompt tokens",
                fmt::join(sizes.begin() + static_cast<std::ptrdiff_t>(captured), sizes.end(), ", "));
  }
  return true;
}

/// The capture of a size would hold up the step that needs it. The first capture of a kind tells how long they take.
bool StepCaptures::must_wait(StepKind kind, int32_t size) {
  if (!options_.capture_at_once_milliseconds) return false;
  const Key key = key_of(kind, size);
  const double estimate = last_milliseconds_[static_cast<size_t>(kind)];
  if (estimate <= *options_.capture_at_once_milliseconds) return false;
  if (cache_.find(key) != nullptr || failed_.contains(key)) return false;
  if (logged_.insert({kind, StepReason::kNotCapturedYet}).second) {
    log_info("a capture takes {:.1f} ms: {} steps of sizes that are not captured yet run eagerly; logged once",
             estimate, kind == StepKind::kDecode ? "decode" : "prompt");
  }
  return true;
}

/// Steps wait for their logits, so nothing of the graph that is replaced is still running.
void StepCaptures::recapture_size(StepKind kind, int32_t size, const StepBatch& batch) {
  const auto start = std::chrono::steady_clock::now();
  try {
    capture_graph(kind, size, &batch);
    ++report_.recaptures;
  } catch (const std::exception& error) {
    capture_failed(kind, size, error);
  }
  report_.milliseconds += milliseconds_since(start);
}

void StepCaptures::capture_series(StepKind kind, std::vector<int32_t> sizes) {
  std::erase_if(sizes, [&](int32_t size) { return beyond_limit(kind, size); });
  if (sizes.empty()) return;
  // The largest first: what it needs is what all need.
  std::sort(sizes.rbegin(), sizes.rend());
  const auto total = static_cast<int>(sizes.size());
  for (int i = 0; i < total; ++i) capture_size(kind, sizes[static_cast<size_t>(i)], i, total, nullptr);
  if (options_.progress) options_.progress(total, total, "");
}

/// `batch`: the step that needs it; null when none does yet.
void StepCaptures::capture_size(StepKind kind, int32_t size, int done, int total, const StepBatch* batch) {
  if (cache_.find(key_of(kind, size)) != nullptr) return;
  const bool decode = kind == StepKind::kDecode;
  if (options_.progress) {
    const double available = static_cast<double>(device_.memory_info().available_bytes) / (1 << 30);
    options_.progress(done, total,
                      fmt::format("Capturing {}={} avail_mem={:.2f} GB)",
                                  decode ? "batches (bs" : "prompt steps (tokens", size, available));
  }
  CaptureReport::Bucket bucket;
  bucket.kind = kind;
  bucket.size = size;
  const auto start = std::chrono::steady_clock::now();
  try {
    const CaptureCache::Entry& entry = capture_graph(kind, size, batch);
    describe(bucket, entry);
  } catch (const std::exception& error) {
    bucket.failure = error.what();
    capture_failed(kind, size, error);
  }
  bucket.milliseconds = milliseconds_since(start);
  report_.milliseconds += bucket.milliseconds;
  report_.graph_bytes += bucket.bytes;
  report_.buckets.push_back(std::move(bucket));
}

void StepCaptures::describe(CaptureReport::Bucket& bucket, const CaptureCache::Entry& entry) {
  bucket.bytes = entry.bytes();
  bucket.launches = entry.launches();
  bucket.eager_operators = entry.eager_operators();
  bucket.pieces = static_cast<int32_t>(entry.pieces.size()) - static_cast<int32_t>(entry.eager_nodes());
  if (options_.mode == Mode::kPiecewise && entry.eager_nodes() == 0) {
    log_warning("no operator of splitting_ops is in the {} graph: it was captured as a whole",
                bucket.kind == StepKind::kDecode ? "decode" : "prefill");
  }
  DebugDump& dump = program_of_(bucket.kind).dump();
  if (dump.enabled()) {
    dump.program(fmt::format("{}{}", bucket.kind == StepKind::kDecode ? "bs" : "tokens", bucket.size), entry.to_text(),
                 entry.to_json());
  }
}

CaptureCache::Entry& StepCaptures::capture_graph(StepKind kind, int32_t size, const StepBatch* batch) {
  StepProgram& program = program_of_(kind);  // made once, and not what a further capture costs
  const auto start = std::chrono::steady_clock::now();
  CaptureCache::Entry& entry = capture_program(program, kind, size, batch);
  last_milliseconds_[static_cast<size_t>(kind)] = milliseconds_since(start);
  return entry;
}

CaptureCache::Entry& StepCaptures::capture_program(StepProgram& program, StepKind kind, int32_t size,
                                                   const StepBatch* batch) {
  const int32_t sequences = sequences_of(kind, size);
  if (batch != nullptr) {
    // With the step's own lengths, so that kernels choose what it needs.
    program.inputs().write(stream_, *batch, size, sequences);
    return cache_.capture(key_of(kind, size), program.bind(size, sequences), program.inputs().lists(sequences));
  }
  // Those of the step before may not fit this size. Every replay brings its own; but they must be some that a step may
  // have, because operators look at them: all rows there are, as of padding or of a prompt's beginning.
  const std::vector<int32_t> rows(static_cast<size_t>(sequences), size / sequences);
  const std::vector<int32_t> keys(static_cast<size_t>(sequences), kind == StepKind::kDecode ? 0 : size);
  const ops::HostList lists[] = {ops::HostList(rows), ops::HostList(keys)};
  return cache_.capture(key_of(kind, size), program.bind(size, sequences), lists);
}

/// Captures a size once more, for what a kernel chooses now. kReplayed when that is done.
StepReason StepCaptures::capture_variant(StepKind kind, int32_t size, CaptureCache::Entry& entry, const GuardMiss& miss,
                                         std::span<const ops::HostList> lists) {
  const char* unit = kind == StepKind::kDecode ? "sequences" : "prompt tokens";
  if (static_cast<int64_t>(entry.variants.size()) + 1 >= options_.capture_limit) {
    if (logged_.insert({kind, StepReason::kCaptureLimit}).second) {
      log_warning("capture_limit is {}: a step of {} {} runs eagerly after {}; logged once", options_.capture_limit,
                  size, unit, miss.to_string());
    }
    return StepReason::kCaptureLimit;
  }
  if (logged_choices_.insert(fmt::format("{} {}", miss.op, miss.choice)).second) {
    log_info("capturing a step of {} {} again: {}; logged once", size, unit, miss.to_string());
  }
  const auto start = std::chrono::steady_clock::now();
  StepReason reason = StepReason::kReplayed;
  try {
    const CaptureCache::Entry& variant = cache_.capture_variant(entry, lists);
    ++report_.variants;
    report_.graph_bytes += variant.bytes();
  } catch (const std::exception& error) {
    capture_failed(kind, size, error);
    reason = StepReason::kCaptureFailed;
  }
  report_.milliseconds += milliseconds_since(start);
  return reason;
}

void StepCaptures::capture_failed(StepKind kind, int32_t size, const std::exception& error) {
  failed_.insert(key_of(kind, size));
  // What it brought to the device may not have got there, and the step runs all the same.
  program_of_(kind).inputs().send_all();
  log_warning(
      "capture of {} failed, its steps run eagerly: {}",
      kind == StepKind::kDecode ? fmt::format("batch size {}", size) : fmt::format("a prompt step of {} tokens", size),
      error.what());
}

}  // namespace reprise::replay
