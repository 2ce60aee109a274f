#include "device/capture.h"

namespace reprise::device {

std::string_view name_of(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::kGlobal:
      return "global";
    case CaptureMode::kThreadLocal:
      return "thread_local";
    case CaptureMode::kRelaxed:
      return "relaxed";
  }
  return "unknown";
}

std::string_view name_of(CaptureStatus status) {
  switch (status) {
    case CaptureStatus::kNone:
      return "none";
    case CaptureStatus::kActive:
      return "active";
    case CaptureStatus::kInvalidated:
      return "invalidated";
  }
  return "unknown";
}

}  // namespace reprise::device
