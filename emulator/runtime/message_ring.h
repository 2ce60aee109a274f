// Texts of failures for aclGetRecentErrMsg() and codes for aclrtGetLastError().
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "device/ascend/interface/acl_types.h"

namespace reprise::emulator {

// The latest messages; older ones make room. Not synchronised.
class MessageRing {
 public:
  static constexpr size_t kCapacity = 16;

  void push(std::string message);
  // All messages but those that `told` has in it, oldest first, one a line; the ring is empty afterwards.
  std::string drain(std::string_view told = {});

 private:
  std::deque<std::string> messages_;
  size_t dropped_ = 0;
};

// Keeps what a failing call of this thread said, and its code as the thread's last error.
void note_failure(aclError code, std::string message);
// Keeps what went wrong on a device, where no call of a user's thread is at hand; any thread may read it.
void note_device_failure(std::string message);
// This thread's messages and the devices', drained; null when there are none. Valid until the thread's next call of it.
const char* drain_messages();
// The thread's last failure; taking clears it.
aclError peek_last_error();
aclError take_last_error();

}  // namespace reprise::emulator
