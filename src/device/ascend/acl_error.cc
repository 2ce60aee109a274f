#include "device/ascend/acl_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/log.h"

namespace reprise::device::ascend {
namespace {

struct CodeEntry {
  int code;
  const char* name;
  ErrorCode kind;
  const char* remedy;  ///< null: none is known
};

using enum ErrorCode;

constexpr const char* kFreeMemory =
    "another process may hold the device's memory: see npu-smi info; or lower --kv-tokens, or take another device";
constexpr const char* kFewerGraphs = "capture fewer batch sizes, or use the mode full, which needs one graph a size";
constexpr const char* kNewerDriver = "update the driver and CANN";
constexpr const char* kReset = "the device needs a reset: end the process and start it again";

// In the order of the codes.
constexpr auto kCodes = std::to_array<CodeEntry>({
    {100000, "INVALID_PARAM", kInvalidArgument, nullptr},
    {100001, "UNINITIALIZE", kFailedPrecondition, nullptr},
    {100002, "REPEAT_INITIALIZE", kFailedPrecondition, nullptr},
    {100037, "REPEAT_FINALIZE", kFailedPrecondition, nullptr},
    {107000, "PARAM_INVALID", kInvalidArgument, nullptr},
    {107001, "INVALID_DEVICEID", kInvalidArgument, "see the numbers that `reprise devices` lists"},
    {107002, "CONTEXT_NULL", kInternal, nullptr},
    {107003, "STREAM_CONTEXT", kInvalidArgument, nullptr},
    {107004, "MODEL_CONTEXT", kInvalidArgument, nullptr},
    {107005, "STREAM_MODEL", kFailedPrecondition, nullptr},
    {107006, "EVENT_TIMESTAMP_INVALID", kFailedPrecondition, "record and synchronize the events first"},
    {107007, "EVENT_TIMESTAMP_REVERSAL", kFailedPrecondition, nullptr},
    {107008, "ADDR_UNALIGNED", kInvalidArgument, nullptr},
    {107015, "STREAM_NO_CB_REG", kFailedPrecondition, nullptr},
    {107017, "INVALID_HANDLE", kInvalidArgument, nullptr},
    {107018, "INVALID_MALLOC_TYPE", kInvalidArgument, nullptr},
    {107019, "WAIT_TIMEOUT", kInternal, kReset},
    {107020, "TASK_TIMEOUT", kInternal, kReset},
    {107022, "DEVICE_TASK_ABORT", kInternal, kReset},
    {107023, "STREAM_ABORT", kInternal, nullptr},
    {107024, "CAPTURE_DEPENDENCY", kCaptureDependency,
     "record the event in the capture first, or use an external event"},
    {107025, "STREAM_UNJOINED", kCaptureUnjoined,
     "record an event after the stream's last work and let the capturing stream wait for it"},
    {107026, "MODEL_CAPTURED", kGraphCapturing, nullptr},
    {107027, "STREAM_CAPTURED", kStreamCapturing, nullptr},
    {107028, "EVENT_CAPTURED", kEventCaptured, nullptr},
    {107029, "STREAM_NOT_CAPTURED", kStreamNotCapturing, nullptr},
    {107030, "CAPTURE_MODE_NOT_SUPPORT", kCaptureForbidden,
     "use the stream's asynchronous call, or exchange_capture_mode(CaptureMode::kRelaxed)"},
    {107031, "STREAM_CAPTURE_IMPLICIT", kCaptureImplicit, "fork to a stream made by create_stream()"},
    {107032, "STREAM_CAPTURE_CONFLICT", kCaptureConflict, nullptr},
    {107033, "STREAM_TASK_GROUP_STATUS", kTaskGroupState, nullptr},
    {107034, "STREAM_TASK_GROUP_INTR", kTaskGroupOperation, nullptr},
    {107035, "TASK_ABORT_STOP", kInternal, nullptr},
    {107036, "STREAM_CAPTURE_UNMATCHED", kCaptureUnmatched, "end the capture on the stream that began it"},
    {107037, "MODEL_RUNNING", kGraphRunning, "record the external events that it waits for"},
    {107038, "STREAM_CAPTURE_WRONG_THREAD", kCaptureWrongThread,
     "use CaptureMode::kRelaxed to end a capture on any thread"},
    {107039, "INSUFFICIENT_INPUT_ARRAY", kInternal, nullptr},
    {107040, "MODEL_UPDATE_FAILED", kFailedPrecondition, nullptr},
    {107041, "CAPTURE_MODE_BLOCK_ASYNC", kPageableMemory, "allocate the host memory with MemoryKind::kPinnedHost"},
    {107042, "SYMBOL_NOT_FOUND", kNotFound, nullptr},
    {107045, "SUB_ACLGRAPH_IS_CAPTURING", kGraphCapturing, nullptr},
    {161001, "PARAM_NULLPTR", kInvalidArgument, nullptr},
    {161002, "PARAM_INVALID", kInvalidArgument, nullptr},
    {200000, "BAD_ALLOC", kOutOfMemory, nullptr},
    {200001, "API_NOT_SUPPORT", kUnsupported, kNewerDriver},
    {200002, "INVALID_DEVICE", kInvalidArgument, "see the numbers that `reprise devices` lists"},
    {200005, "INVALID_RESOURCE_HANDLE", kInvalidArgument, nullptr},
    {200006, "FEATURE_UNSUPPORTED", kUnsupported, kNewerDriver},
    {207000, "FEATURE_NOT_SUPPORT", kUnsupported, kNewerDriver},
    {207001, "MEMORY_ALLOCATION", kOutOfMemory, kFreeMemory},
    {207002, "MEMORY_FREE", kInternal, nullptr},
    {207005, "RESOURCE_ALLOC_FAIL", kResourceExhausted, kFewerGraphs},
    {207007, "NO_EVENT_RESOURCE", kResourceExhausted, kFewerGraphs},
    {207008, "NO_STREAM_RESOURCE", kResourceExhausted, kFewerGraphs},
    {207009, "NO_NOTIFY_RESOURCE", kResourceExhausted, kFewerGraphs},
    {207010, "NO_MODEL_RESOURCE", kResourceExhausted, kFewerGraphs},
    {207012, "OVER_LIMIT", kResourceExhausted, nullptr},
    {207018, "DEVICE_OOM", kOutOfMemory, kFreeMemory},
    {207019, "FEATURE_NOT_SUPPORT_UPDATE_OP", kUnsupported, kNewerDriver},
    {300000, "STORAGE_OVER_LIMIT", kOutOfMemory, kFreeMemory},
    {361001, "RUNTIME_ERROR", kInternal, nullptr},
    {500000, "INTERNAL_ERROR", kInternal, nullptr},
    {500001, "FAILURE", kInternal, nullptr},
    {500003, "RT_FAILURE", kInternal, nullptr},
    {507000, "INTERNAL_ERROR", kInternal, nullptr},
    {507002, "STREAM_TASK_FULL", kResourceExhausted, "synchronize the stream now and then"},
    {507004, "STREAM_NOT_COMPLETE", kFailedPrecondition, nullptr},
    {507006, "EVENT_NOT_COMPLETE", kFailedPrecondition, nullptr},
    {507009, "TASK_TYPE_NOT_SUPPORT", kTaskGroupOperation, nullptr},
    {507011, "MODEL_EXECUTE", kInternal, nullptr},
    {507014, "AICORE_TIMEOUT", kInternal, kReset},
    {507015, "AICORE_EXCEPTION", kInternal, kReset},
    {507046, "STREAM_SYNC_TIMEOUT", kInternal, nullptr},
    {507047, "EVENT_SYNC_TIMEOUT", kInternal, nullptr},
    {507903, "STREAM_CAPTURE_INVALIDATED", kCaptureInvalidated, nullptr},
    {561000, "INNER", kInternal, nullptr},
    {561001, "INNER_INFERSHAPE_ERROR", kInvalidArgument, nullptr},
    {561002, "INNER_TILING_ERROR", kUnsupported, nullptr},
    {561003, "INNER_FIND_KERNEL_ERROR", kUnsupported, "install the kernels' package of this CANN for this chip"},
    {561101, "INNER_CREATE_EXECUTOR", kInternal, nullptr},
    {561102, "INNER_NOT_TRANS_EXECUTOR", kInternal, nullptr},
    {561103, "INNER_NULLPTR", kInternal, nullptr},
    {561107, "INNER_OPP_PATH_NOT_FOUND", kUnsupported, "set ASCEND_OPP_PATH, as CANN's set_env.sh does"},
    {561112, "INNER_OPP_KERNEL_PKG_NOT_FOUND", kUnsupported, "install the kernels' package of this CANN for this chip"},
});

const CodeEntry* find_code(int code) {
  const auto place = std::lower_bound(kCodes.begin(), kCodes.end(), code,
                                      [](const CodeEntry& entry, int wanted) { return entry.code < wanted; });
  return place == kCodes.end() || place->code != code ? nullptr : &*place;
}

/// The runtime's own words, in one line that is not too long.
std::string recent_message(const AclLibrary& library) {
  constexpr size_t kLongest = 600;
  const char* text = library.aclGetRecentErrMsg == nullptr ? nullptr : library.aclGetRecentErrMsg();
  if (text == nullptr) return {};
  std::string line;
  for (const char* letter = text; *letter != '\0' && line.size() < kLongest; ++letter) {
    const bool space = *letter == '\n' || *letter == '\r' || *letter == '\t' || *letter == ' ';
    if (!space) {
      line += *letter;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace

ErrorCode error_code_of(int code) {
  const CodeEntry* entry = find_code(code);
  return entry == nullptr ? ErrorCode::kInternal : entry->kind;
}

std::string acl_code_text(int code) {
  const CodeEntry* entry = find_code(code);
  return fmt::format("{} ({})", code, entry == nullptr ? "unknown code" : entry->name);
}

Error acl_error_as(ErrorCode kind, const AclLibrary& library, int code, std::string_view call, std::string_view doing) {
  const std::string said = recent_message(library);
  Error error(kind, "{}: {} answers {}{}{}", doing, call, acl_code_text(code), said.empty() ? "" : ": ", said);
  const CodeEntry* entry = find_code(code);
  if (entry != nullptr && entry->remedy != nullptr) return std::move(error).remedy(entry->remedy);
  return error;
}

Error acl_error(const AclLibrary& library, int code, std::string_view call, std::string_view doing) {
  return acl_error_as(error_code_of(code), library, code, call, doing);
}

void log_acl(const AclLibrary& library, int code, std::string_view call, std::string_view doing) noexcept {
  try {
    if (code != ACL_SUCCESS) log_error("{}", acl_error(library, code, call, doing).what());
  } catch (const std::exception&) {
    // No memory for the text.
  }
}

}  // namespace reprise::device::ascend
