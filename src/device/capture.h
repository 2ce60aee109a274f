#pragma once

#include <cstdint>
#include <string_view>

namespace reprise::device {

/// How far a live capture forbids unsafe synchronous calls: for every thread, for its own thread, for nobody. The
/// order is from strict to lax; the strictest live capture decides.
enum class CaptureMode { kGlobal, kThreadLocal, kRelaxed };

/// State of a stream towards capture.
enum class CaptureStatus { kNone, kActive, kInvalidated };

std::string_view name_of(CaptureMode mode);
std::string_view name_of(CaptureStatus status);

}  // namespace reprise::device
