// The opaque pointers of the interface and the objects behind them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace reprise::emulator {

enum class HandleKind : uint8_t {
  kContext = 1,
  kStream,
  kEvent,
  kNotify,
  kGraph,
  kInnerStream,
  kTask,
  kTaskGroup,
  kCondition,
};

/// A handle is a number that is never given twice and that no address can be: a destroyed one stays recognisable, and
/// nobody can look through it. Each type T names its kind as T::kHandleKind. Not synchronised.
class HandleTable {
 public:
  HandleTable() = default;
  /// An empty one that goes on counting where another stopped.
  explicit HandleTable(uint64_t next) : next_(next) {}
  uint64_t next() const { return next_; }

  template <typename T>
  void* add(std::shared_ptr<T> object) {
    void* handle = make(T::kHandleKind);
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  /// Null when it is none of T's, or destroyed.
  template <typename T>
  std::shared_ptr<T> find(const void* handle) const {
    if (kind_of(handle) != T::kHandleKind) return nullptr;
    const auto entry = objects_.find(const_cast<void*>(handle));
    return entry == objects_.end() ? nullptr : std::static_pointer_cast<T>(entry->second);
  }
  /// Every object of a kind for which `belongs` holds.
  template <typename T>
  std::vector<std::shared_ptr<T>> select(const std::function<bool(const T&)>& belongs) const {
    std::vector<std::shared_ptr<T>> found;
    for (const auto& [handle, object] : objects_) {
      if (kind_of(handle) != T::kHandleKind) continue;
      auto typed = std::static_pointer_cast<T>(object);
      if (belongs(*typed)) found.push_back(std::move(typed));
    }
    return found;
  }
  void remove(const void* handle) { objects_.erase(const_cast<void*>(handle)); }
  /// Whether it was given once and is no more.
  template <typename T>
  bool was_destroyed(const void* handle) const {
    const uint64_t value = reinterpret_cast<uint64_t>(handle);
    return kind_of(handle) == T::kHandleKind && (value & kSerialMask) >> kShift < next_ && !find<T>(handle);
  }

 private:
  // Not canonical on any machine of 48 or 57 bits, so that looking through one faults.
  static constexpr uint64_t kMark = 0xacull << 56;
  static constexpr uint64_t kSerialMask = (1ull << 48) - 1;
  static constexpr int kShift = 4;

  static HandleKind kind_of(const void* handle) {
    const uint64_t value = reinterpret_cast<uint64_t>(handle);
    return (value & (0xffull << 56)) == kMark ? static_cast<HandleKind>((value >> 48) & 0xff) : HandleKind{0};
  }
  void* make(HandleKind kind) {
    return reinterpret_cast<void*>(kMark | static_cast<uint64_t>(kind) << 48 | next_++ << kShift);
  }

  std::unordered_map<void*, std::shared_ptr<void>> objects_;
  uint64_t next_ = 1;
};

}  // namespace reprise::emulator
