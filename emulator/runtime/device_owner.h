// Keeps a device while something refers to it: a thread may still be in a call on it when aclFinalize() ends.
#pragma once

#include <memory>

namespace reprise::emulator {

class Device;

std::shared_ptr<Device> owner_of(Device& device);

}  // namespace reprise::emulator
