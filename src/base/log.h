#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace reprise {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// Sets what is written to standard error; the default is kInfo, or REPRISE_LOG=debug|info|warning|error|off.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
/// Writes one line. Thread-safe. Never throws: a full disk must not end the service.
void log_line(LogLevel level, std::string_view text) noexcept;

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace reprise
