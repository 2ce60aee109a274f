#include "emulator/operators/meta/objects.h"

#include <array>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::emulator {
namespace {

/// So many destroyed objects of each kind are kept.
constexpr size_t kKept = 1024;
constexpr size_t kKinds = static_cast<size_t>(ObjectKind::kExecutor) + 1;

class ObjectRegistry {
 public:
  enum class State { kLive, kDestroyed, kUnknown };

  void adopt(ObjectKind kind, const void* object, void (*release)(const void*)) {
    const std::lock_guard lock(mutex_);
    entries_[object] = Entry{kind, State::kLive, {object, release}};
  }

  /// Of a live one `held` gets a share.
  State use(ObjectKind kind, const void* object, std::shared_ptr<const void>& held) {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(object);
    if (entry == entries_.end() || entry->second.kind != kind) return State::kUnknown;
    if (entry->second.state == State::kLive) held = entry->second.object;
    return entry->second.state;
  }

  /// What it was before.
  State destroy(ObjectKind kind, const void* object) {
    std::shared_ptr<const void> released;  // behind the lock
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(object);
    if (entry == entries_.end() || entry->second.kind != kind) return State::kUnknown;
    if (entry->second.state == State::kDestroyed) return State::kDestroyed;
    entry->second.state = State::kDestroyed;
    std::deque<const void*>& kept = kept_[static_cast<size_t>(kind)];
    kept.push_back(object);
    if (kept.size() > kKept) {
      const auto oldest = entries_.find(kept.front());
      released = std::move(oldest->second.object);
      entries_.erase(oldest);
      kept.pop_front();
    }
    return State::kLive;
  }

 private:
  struct Entry {
    ObjectKind kind;
    State state = State::kLive;
    std::shared_ptr<const void> object;
  };

  std::mutex mutex_;
  std::unordered_map<const void*, Entry> entries_;
  std::array<std::deque<const void*>, kKinds> kept_;  // destroyed, oldest first
};

/// Never destroyed: programs may use objects while the process ends.
ObjectRegistry& registry() {
  static auto* instance = new ObjectRegistry;
  return *instance;
}

/// What this thread's call uses.
std::vector<std::shared_ptr<const void>>& uses() {
  thread_local std::vector<std::shared_ptr<const void>> held;
  return held;
}

}  // namespace

void adopt_object(ObjectKind kind, const void* object, void (*release)(const void*)) {
  registry().adopt(kind, object, release);
  emulatorObjectEvent(ObjectEvent::kCreated, kind, object);
}

bool destroy_object(ObjectKind kind, const void* object) {
  const ObjectRegistry::State before = registry().destroy(kind, object);
  if (before != ObjectRegistry::State::kUnknown) {
    const bool first = before == ObjectRegistry::State::kLive;
    emulatorObjectEvent(first ? ObjectEvent::kDestroyed : ObjectEvent::kDestroyedAgain, kind, object);
  }
  return before == ObjectRegistry::State::kLive;
}

}  // namespace reprise::emulator

extern "C" {

bool emulatorUseObject(reprise::emulator::ObjectKind kind, const void* object) {
  using reprise::emulator::ObjectRegistry;
  std::shared_ptr<const void> held;
  const ObjectRegistry::State state = reprise::emulator::registry().use(kind, object, held);
  if (state == ObjectRegistry::State::kDestroyed) {
    emulatorObjectEvent(reprise::emulator::ObjectEvent::kUsedDestroyed, kind, object);
  }
  if (held != nullptr) reprise::emulator::uses().push_back(std::move(held));
  return state == ObjectRegistry::State::kLive;
}

bool emulatorKnowsObject(reprise::emulator::ObjectKind kind, const void* object) {
  using reprise::emulator::ObjectRegistry;
  std::shared_ptr<const void> held;
  const ObjectRegistry::State state = reprise::emulator::registry().use(kind, object, held);
  if (held != nullptr) reprise::emulator::uses().push_back(std::move(held));
  return state == ObjectRegistry::State::kLive;
}

void emulatorEndUses() { reprise::emulator::uses().clear(); }

}  // extern "C"
