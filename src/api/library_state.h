#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "compile/replacement.h"
#include "ops/eager_dispatcher.h"
#include "reprise/library.h"

namespace reprise {

class Library::Implementation {
 public:
  Implementation(std::unique_ptr<device::Device> owned_device, ops::Registry operators)
      : device(std::move(owned_device)),
        registry(std::move(operators)),
        stream(device->create_stream({0, "library"})),
        replacements(registry),
        eager(registry, *device, *stream) {}

  std::unique_ptr<device::Device> device;
  ops::Registry registry;
  std::unique_ptr<device::Stream> stream;
  compile::ReplacementSet replacements;
  std::map<std::string, Backend, std::less<>> backends;
  ops::EagerDispatcher eager;
  Stance stance = Stance::kDefault;
  /// Of the eager method whose code runs; null when none does.
  ops::EagerDispatcher* running = nullptr;
};

}  // namespace reprise
