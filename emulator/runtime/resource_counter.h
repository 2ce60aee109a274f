// A resource of a device of which there is a fixed number.
#pragma once

#include <cstdint>

namespace reprise::emulator {

/// Not synchronised.
class ResourceCounter {
 public:
  explicit ResourceCounter(uint32_t limit) : limit_(limit) {}

  /// False, and nothing taken, when fewer are left.
  bool take(uint32_t count = 1) {
    if (count > available()) return false;
    used_ += count;
    return true;
  }
  void give_back(uint32_t count = 1) { used_ -= count; }
  uint32_t available() const { return limit_ - used_; }
  uint32_t used() const { return used_; }
  uint32_t limit() const { return limit_; }

 private:
  uint32_t limit_;
  uint32_t used_ = 0;
};

}  // namespace reprise::emulator
