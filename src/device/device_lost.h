#pragma once

#include <utility>

#include "base/error.h"

namespace reprise::device {

/// The device does nothing any more until it is reset: a kernel of it has failed, or never ends. Whoever would try
/// again with the next piece of work should end instead.
class DeviceLost : public Error {
 public:
  explicit DeviceLost(Error error) : Error(std::move(error)) {}
};

}  // namespace reprise::device
