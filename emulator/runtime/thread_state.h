// What the interface keeps for each thread of the user.
#pragma once

#include <memory>

#include "device/ascend/interface/acl_types.h"

namespace reprise::emulator {

class Context;
class Stream;

struct ThreadState {
  std::weak_ptr<Context> context;  // the current one; expires with it
  aclmdlRICaptureMode exchange_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  std::weak_ptr<Stream> limits_of;           // whose core limits this thread uses
  const Stream* host_function_of = nullptr;  // whose host function this thread runs
  double clock = 0;                          // seconds that the timing model gave to the thread's calls

  static ThreadState& current();
};

}  // namespace reprise::emulator
