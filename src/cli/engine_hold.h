#pragma once

#include <future>
#include <string>

#include "engine/engine_service.h"

namespace reprise::cli {

/// For tests of what a server does while its engine does nothing: REPRISE_DEBUG_HOLD names a file, and as long as that
/// is there the engine's thread waits between two steps. Without the variable nothing is looked at.
class EngineHold {
 public:
  explicit EngineHold(engine::EngineService& service);
  /// Looks for the file.
  void check();

 private:
  engine::EngineService& service_;
  const std::string file_;
  std::future<void> held_;
};

}  // namespace reprise::cli
