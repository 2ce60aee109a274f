#include "emulator/runtime/thread_state.h"

namespace reprise::emulator {

ThreadState& ThreadState::current() {
  static thread_local ThreadState state;
  return state;
}

}  // namespace reprise::emulator
