#include "emulator/runtime/validation/object_ledger.h"

#include <fmt/format.h>

namespace reprise::emulator {
namespace {

// So many destroyed objects of each kind are remembered; programs that run for days must not grow.
constexpr size_t kMostGraves = 1 << 12;

}  // namespace

std::string_view name_of(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kContext:
      return "context";
    case ObjectKind::kStream:
      return "stream";
    case ObjectKind::kEvent:
      return "event";
    case ObjectKind::kNotify:
      return "notify";
    case ObjectKind::kGraph:
      return "graph";
    case ObjectKind::kDeviceMemory:
      return "device memory";
    case ObjectKind::kHostMemory:
      return "pinned host memory";
    case ObjectKind::kTensor:
      return "tensor";
    case ObjectKind::kScalar:
      return "scalar";
    case ObjectKind::kIntArray:
      return "array of integers";
    case ObjectKind::kFloatArray:
      return "array of floats";
    case ObjectKind::kBoolArray:
      return "array of booleans";
    case ObjectKind::kTensorList:
      return "list of tensors";
    case ObjectKind::kScalarList:
      return "list of scalars";
    case ObjectKind::kExecutor:
      return "executor";
  }
  return "object";
}

void ObjectLedger::created(ObjectKind kind, const void* handle, int32_t device, uint64_t bytes) {
  graves_.erase(handle);
  live_.insert_or_assign(handle, Entry{kind, device, bytes, CallSite::here()});
}

void ObjectLedger::destroyed(const void* handle) {
  const auto entry = live_.find(handle);
  if (entry == live_.end()) return;
  const ObjectKind kind = entry->second.kind;
  const uint64_t number = next_grave_++;
  graves_.insert_or_assign(handle, Grave{kind, number, entry->second.created, CallSite::here()});
  live_.erase(entry);
  auto& order = grave_order_[static_cast<size_t>(kind)];
  order.emplace_back(handle, number);
  if (order.size() <= kMostGraves) return;
  // Unless its address was given to another meanwhile.
  const auto oldest = graves_.find(order.front().first);
  if (oldest != graves_.end() && oldest->second.number == order.front().second) graves_.erase(oldest);
  order.pop_front();
}

uint64_t ObjectLedger::bytes_of(const void* handle) const {
  const auto entry = live_.find(handle);
  return entry == live_.end() ? 0 : entry->second.bytes;
}

void ObjectLedger::destroy_refused(ObjectKind kind, const void* handle) {
  const auto grave = graves_.find(handle);
  if (grave == graves_.end() || grave->second.kind != kind) return;
  reporter_.report(Misuse::kDestroyedTwice, fmt::format("the {} {} was destroyed already", name_of(kind), handle),
                   {{"destroyed again", CallSite::here()},
                    {"destroyed first", grave->second.destroyed},
                    {"created", grave->second.created}});
}

void ObjectLedger::use_refused(ObjectKind kind, const void* handle) {
  const auto grave = graves_.find(handle);
  if (grave == graves_.end() || grave->second.kind != kind) return;
  reporter_.report(
      Misuse::kUsedAfterDestroy, fmt::format("the {} {} was destroyed before", name_of(kind), handle),
      {{"used", CallSite::here()}, {"destroyed", grave->second.destroyed}, {"created", grave->second.created}});
}

void ObjectLedger::report_leaks(int32_t device) {
  const CallSite here = CallSite::here();
  // Objects that were made in one place are one report.
  struct Group {
    size_t count = 0;
    uint64_t bytes = 0;
    const void* first = nullptr;
    Entry entry;
  };
  std::map<std::pair<ObjectKind, uint64_t>, Group> groups;
  for (auto entry = live_.begin(); entry != live_.end();) {
    if (device >= 0 && entry->second.device != device) {
      ++entry;
      continue;
    }
    Group& group = groups[{entry->second.kind, entry->second.created.fingerprint()}];
    if (group.count++ == 0) {
      group.first = entry->first;
      group.entry = entry->second;
    }
    group.bytes += entry->second.bytes;
    entry = live_.erase(entry);
  }
  for (const auto& [key, group] : groups) {
    std::string what = fmt::format("{} {}", name_of(key.first), group.first);
    if (group.count > 1) what += fmt::format(" and {} more of the same place", group.count - 1);
    if (group.bytes > 0) what += fmt::format(", {} bytes{}", group.bytes, group.count > 1 ? " together" : "");
    reporter_.report(Misuse::kLeak, what + ": not destroyed", {{"created", group.entry.created}, {"ended", here}});
  }
}

void ObjectLedger::clear() {
  live_.clear();
  graves_.clear();
  for (auto& order : grave_order_) order.clear();
}

}  // namespace reprise::emulator
