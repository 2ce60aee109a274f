#include "cli/engine_hold.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/log.h"

namespace reprise::cli {
namespace {

std::string file_of_environment() {
  const char* file = std::getenv("REPRISE_DEBUG_HOLD");
  return file == nullptr ? "" : file;
}

bool exists(const std::string& file) { return ::access(file.c_str(), F_OK) == 0; }

}  // namespace

EngineHold::EngineHold(engine::EngineService& service) : service_(service), file_(file_of_environment()) {
  if (!file_.empty()) log_warning("REPRISE_DEBUG_HOLD: the engine waits as long as there is a file {}", file_);
}

void EngineHold::check() {
  if (file_.empty() || !exists(file_)) return;
  if (held_.valid() && held_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  held_ = service_.run([file = file_](engine::Engine& /*engine*/) {
    while (exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
}

}  // namespace reprise::cli
