#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <string>

namespace reprise {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger created("reprise", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    created.set_pattern("[%H:%M:%S.%e] %^%l%$: %v");
    const char* wanted = std::getenv("REPRISE_LOG");
    const std::string name = wanted == nullptr ? "info" : wanted;
    const bool unknown = name != "off" && spdlog::level::from_str(name) == spdlog::level::off;
    created.set_level(unknown ? spdlog::level::info : spdlog::level::from_str(name));
    if (unknown && !name.empty()) {
      created.warn("REPRISE_LOG is '{}', which is none of debug, info, warning, error and off: info is used", name);
    }
    return created;
  }();
  return instance;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

bool log_enabled(LogLevel level) { return logger().should_log(to_spdlog(level)); }

void log_line(LogLevel level, std::string_view text) noexcept {
  try {
    logger().log(to_spdlog(level), "{}", text);
  } catch (...) {
    // The sink failed (a full disk, a closed pipe): the work goes on without this line.
  }
}

}  // namespace reprise
