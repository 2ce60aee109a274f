#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compile/replacement.h"
#include "ops/eager_dispatcher.h"
#include "reprise/library.h"

namespace reprise {

/// The values of scopes that are open: the one that was opened last holds, in whatever order they end.
template <typename Value>
class ScopedValues {
 public:
  bool empty() const { return open_.empty(); }
  /// Of the scope that was opened last; there must be one.
  const Value& latest() const { return open_.back().second; }
  int64_t open(Value value) {
    open_.emplace_back(next_, std::move(value));
    return next_++;
  }
  void close(int64_t scope) {
    std::erase_if(open_, [&](const auto& one) { return one.first == scope; });
  }

 private:
  std::vector<std::pair<int64_t, Value>> open_;
  int64_t next_ = 0;
};

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
  ScopedValues<Stance> stances;
  Stance stance() const { return stances.empty() ? Stance::kDefault : stances.latest(); }
  ScopedValues<device::CoreLimit> core_limits;
  device::CoreLimit outer_core_limit;  ///< of the stream, outside of all scopes
  bool tracing = false;                ///< a method's code runs to be traced
  /// Of the eager method whose code runs; null when none does.
  ops::EagerDispatcher* running = nullptr;
};

}  // namespace reprise
