#include "emulator/runtime/device.h"

#include "emulator/runtime/message_ring.h"

namespace reprise::emulator {

Device::Device(int32_t number, const Profile& chip, bool execute, bool poison)
    : id(number),
      profile(chip),
      memory(chip.memory_bytes, chip.memory_taken, chip.memory_slack, execute, poison),
      streams(chip.streams),
      events(chip.events),
      notifies(chip.notifies),
      models(chip.models),
      software_queues(chip.software_queues) {}

std::shared_ptr<Device> owner_of(Device& device) { return device.shared_from_this(); }

void Device::fail(Status status) {
  note_device_failure(status.text);
  if (error_.ok()) error_ = std::move(status);
}

void Device::clear() {
  memory.free_all();
  error_ = {};
  core_limits_[0] = core_limits_[1] = 0;
  word_clocks_.clear();
  word_orders_.clear();
  references = 0;
}

}  // namespace reprise::emulator
