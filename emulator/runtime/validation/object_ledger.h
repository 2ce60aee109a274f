// Who made what, and who destroyed it: double destroys and leaks.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "emulator/objects.h"
#include "emulator/runtime/call_site.h"
#include "emulator/runtime/validation/misuse.h"

namespace reprise::emulator {

std::string_view name_of(ObjectKind kind);

/// Objects behind handles that their users destroy. Not synchronised.
class ObjectLedger {
 public:
  explicit ObjectLedger(MisuseReporter& reporter) : reporter_(reporter) {}

  void created(ObjectKind kind, const void* handle, int32_t device, uint64_t bytes = 0);
  void destroyed(const void* handle);
  /// 0 when nothing such lives.
  uint64_t bytes_of(const void* handle) const;
  /// A destroy of something that is none: reports it when it was destroyed before.
  void destroy_refused(ObjectKind kind, const void* handle);
  /// A use of something that is none: as above.
  void use_refused(ObjectKind kind, const void* handle);
  /// Reports what lives on a device (-1: on all, and what belongs to none) and forgets it.
  void report_leaks(int32_t device);
  void clear();

 private:
  struct Entry {
    ObjectKind kind;
    int32_t device = 0;
    uint64_t bytes = 0;
    CallSite created;
  };
  struct Grave {
    ObjectKind kind;
    uint64_t number = 0;
    CallSite created;
    CallSite destroyed;
  };

  MisuseReporter& reporter_;
  std::unordered_map<const void*, Entry> live_;
  std::unordered_map<const void*, Grave> graves_;
  uint64_t next_grave_ = 0;
  // By kind, oldest first.
  std::array<std::deque<std::pair<const void*, uint64_t>>, static_cast<size_t>(ObjectKind::kExecutor) + 1> grave_order_;
};

}  // namespace reprise::emulator
