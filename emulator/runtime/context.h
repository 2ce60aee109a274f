// A context of a device: streams and captures belong to one.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "emulator/runtime/device_owner.h"
#include "emulator/runtime/handle_table.h"

namespace reprise::emulator {

class Capture;
class Device;
class Stream;

/// Guarded by Runtime::mutex().
class Context : public std::enable_shared_from_this<Context> {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kContext;

  explicit Context(Device& owner) : device(owner) {}

  Device& device;
  const std::shared_ptr<Device> device_owner = owner_of(device);
  void* handle = nullptr;
  std::shared_ptr<Stream> default_stream;
  std::set<std::shared_ptr<Stream>> streams;    // the default one too
  std::set<std::shared_ptr<Capture>> captures;  // live ones
};

}  // namespace reprise::emulator
