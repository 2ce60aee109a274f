#include "base/error.h"

namespace reprise {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgument";
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kCorruptData:
      return "CorruptData";
    case ErrorCode::kUnsupported:
      return "Unsupported";
    case ErrorCode::kIo:
      return "Io";
    case ErrorCode::kOutOfMemory:
      return "OutOfMemory";
    case ErrorCode::kResourceExhausted:
      return "ResourceExhausted";
    case ErrorCode::kFailedPrecondition:
      return "FailedPrecondition";
    case ErrorCode::kCancelled:
      return "Cancelled";
    case ErrorCode::kGraphBreak:
      return "GraphBreak";
    case ErrorCode::kInternal:
      return "Internal";
    case ErrorCode::kStreamCapturing:
      return "StreamCapturing";
    case ErrorCode::kStreamNotCapturing:
      return "StreamNotCapturing";
    case ErrorCode::kEventCaptured:
      return "EventCaptured";
    case ErrorCode::kCaptureForbidden:
      return "CaptureForbidden";
    case ErrorCode::kCaptureImplicit:
      return "CaptureImplicit";
    case ErrorCode::kCaptureConflict:
      return "CaptureConflict";
    case ErrorCode::kCaptureDependency:
      return "CaptureDependency";
    case ErrorCode::kCaptureUnmatched:
      return "CaptureUnmatched";
    case ErrorCode::kCaptureWrongThread:
      return "CaptureWrongThread";
    case ErrorCode::kCaptureUnjoined:
      return "CaptureUnjoined";
    case ErrorCode::kCaptureInvalidated:
      return "CaptureInvalidated";
    case ErrorCode::kGraphCapturing:
      return "GraphCapturing";
    case ErrorCode::kGraphRunning:
      return "GraphRunning";
    case ErrorCode::kTaskGroupState:
      return "TaskGroupState";
    case ErrorCode::kTaskGroupOperation:
      return "TaskGroupOperation";
    case ErrorCode::kTaskUpdateMismatch:
      return "TaskUpdateMismatch";
    case ErrorCode::kPageableMemory:
      return "PageableMemory";
  }
  return "Unknown";
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return 2;
    case ErrorCode::kNotFound:
    case ErrorCode::kCorruptData:
    case ErrorCode::kIo:
      return 3;
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kResourceExhausted:
      return 4;
    case ErrorCode::kCancelled:
      return 130;
    default:
      return 1;
  }
}

}  // namespace reprise
