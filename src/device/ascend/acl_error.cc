#include "device/ascend/acl_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "device/device_lost.h"

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
    "another process may hold the device's memory: see npu-smi info; or lower --kv-tokens or --max-prefill-tokens, or "
    "take another device";
constexpr const char* kFewerGraphs = "capture fewer batch sizes, or use the mode full, which needs one graph a size";
constexpr const char* kNewerDriver = "update the driver and CANN";
constexpr const char* kReset = "the device needs a reset: end the process and start it again";

// In the order of the codes.
constexpr auto kCodes = std::to_array<CodeEntry>({
    {ACL_ERROR_INVALID_PARAM, "INVALID_PARAM", kInvalidArgument, nullptr},
    {ACL_ERROR_UNINITIALIZE, "UNINITIALIZE", kFailedPrecondition, nullptr},
    {ACL_ERROR_REPEAT_INITIALIZE, "REPEAT_INITIALIZE", kFailedPrecondition, nullptr},
    {ACL_ERROR_REPEAT_FINALIZE, "REPEAT_FINALIZE", kFailedPrecondition, nullptr},
    {ACL_ERROR_RT_PARAM_INVALID, "PARAM_INVALID", kInvalidArgument, nullptr},
    {ACL_ERROR_RT_INVALID_DEVICEID, "INVALID_DEVICEID", kInvalidArgument,
     "see the numbers that `reprise devices` lists"},
    {ACL_ERROR_RT_CONTEXT_NULL, "CONTEXT_NULL", kInternal, nullptr},
    {ACL_ERROR_RT_STREAM_CONTEXT, "STREAM_CONTEXT", kInvalidArgument, nullptr},
    {ACL_ERROR_RT_MODEL_CONTEXT, "MODEL_CONTEXT", kInvalidArgument, nullptr},
    {ACL_ERROR_RT_STREAM_MODEL, "STREAM_MODEL", kFailedPrecondition, nullptr},
    {ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "EVENT_TIMESTAMP_INVALID", kFailedPrecondition,
     "record and synchronize the events first"},
    {ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "EVENT_TIMESTAMP_REVERSAL", kFailedPrecondition, nullptr},
    {ACL_ERROR_RT_ADDR_UNALIGNED, "ADDR_UNALIGNED", kInvalidArgument, nullptr},
    {ACL_ERROR_RT_STREAM_NO_CB_REG, "STREAM_NO_CB_REG", kFailedPrecondition, nullptr},
    {ACL_ERROR_RT_INVALID_HANDLE, "INVALID_HANDLE", kInvalidArgument, nullptr},
    {ACL_ERROR_RT_INVALID_MALLOC_TYPE, "INVALID_MALLOC_TYPE", kInvalidArgument, nullptr},
    {ACL_ERROR_RT_WAIT_TIMEOUT, "WAIT_TIMEOUT", kInternal, kReset},
    {ACL_ERROR_RT_TASK_TIMEOUT, "TASK_TIMEOUT", kInternal, kReset},
    {ACL_ERROR_RT_DEVICE_TASK_ABORT, "DEVICE_TASK_ABORT", kInternal, kReset},
    {ACL_ERROR_RT_STREAM_ABORT, "STREAM_ABORT", kInternal, nullptr},
    {ACL_ERROR_RT_CAPTURE_DEPENDENCY, "CAPTURE_DEPENDENCY", kCaptureDependency,
     "record the event in the capture first, or use an external event"},
    {ACL_ERROR_RT_STREAM_UNJOINED, "STREAM_UNJOINED", kCaptureUnjoined,
     "record an event after the stream's last work and let the capturing stream wait for it"},
    {ACL_ERROR_RT_MODEL_CAPTURED, "MODEL_CAPTURED", kGraphCapturing, nullptr},
    {ACL_ERROR_RT_STREAM_CAPTURED, "STREAM_CAPTURED", kStreamCapturing, nullptr},
    {ACL_ERROR_RT_EVENT_CAPTURED, "EVENT_CAPTURED", kEventCaptured, nullptr},
    {ACL_ERROR_RT_STREAM_NOT_CAPTURED, "STREAM_NOT_CAPTURED", kStreamNotCapturing, nullptr},
    {ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "CAPTURE_MODE_NOT_SUPPORT", kCaptureForbidden,
     "use the stream's asynchronous call, or exchange_capture_mode(CaptureMode::kRelaxed)"},
    {ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "STREAM_CAPTURE_IMPLICIT", kCaptureImplicit,
     "fork to a stream made by create_stream()"},
    {ACL_ERROR_STREAM_CAPTURE_CONFLICT, "STREAM_CAPTURE_CONFLICT", kCaptureConflict, nullptr},
    {ACL_ERROR_STREAM_TASK_GROUP_STATUS, "STREAM_TASK_GROUP_STATUS", kTaskGroupState, nullptr},
    {ACL_ERROR_STREAM_TASK_GROUP_INTR, "STREAM_TASK_GROUP_INTR", kTaskGroupOperation, nullptr},
    {ACL_ERROR_RT_TASK_ABORT_STOP, "TASK_ABORT_STOP", kInternal, nullptr},
    {ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "STREAM_CAPTURE_UNMATCHED", kCaptureUnmatched,
     "end the capture on the stream that began it"},
    {ACL_ERROR_RT_MODEL_RUNNING, "MODEL_RUNNING", kGraphRunning,
     "record the external events that it waits for, if there are any; else a kernel hangs"},
    {ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, "STREAM_CAPTURE_WRONG_THREAD", kCaptureWrongThread,
     "use CaptureMode::kRelaxed to end a capture on any thread"},
    {ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, "INSUFFICIENT_INPUT_ARRAY", kInternal, nullptr},
    {ACL_ERROR_RT_MODEL_UPDATE_FAILED, "MODEL_UPDATE_FAILED", kFailedPrecondition, nullptr},
    {ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, "CAPTURE_MODE_BLOCK_ASYNC", kPageableMemory,
     "allocate the host memory with MemoryKind::kPinnedHost"},
    {ACL_ERROR_RT_SYMBOL_NOT_FOUND, "SYMBOL_NOT_FOUND", kNotFound, nullptr},
    {ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, "SUB_ACLGRAPH_IS_CAPTURING", kGraphCapturing, nullptr},
    {ACLNN_ERR_PARAM_NULLPTR, "PARAM_NULLPTR", kInvalidArgument, nullptr},
    {ACLNN_ERR_PARAM_INVALID, "PARAM_INVALID", kInvalidArgument, nullptr},
    {ACL_ERROR_BAD_ALLOC, "BAD_ALLOC", kOutOfMemory, nullptr},
    {ACL_ERROR_API_NOT_SUPPORT, "API_NOT_SUPPORT", kUnsupported, kNewerDriver},
    {ACL_ERROR_INVALID_DEVICE, "INVALID_DEVICE", kInvalidArgument, "see the numbers that `reprise devices` lists"},
    {ACL_ERROR_INVALID_RESOURCE_HANDLE, "INVALID_RESOURCE_HANDLE", kInvalidArgument, nullptr},
    {ACL_ERROR_FEATURE_UNSUPPORTED, "FEATURE_UNSUPPORTED", kUnsupported, kNewerDriver},
    {ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "FEATURE_NOT_SUPPORT", kUnsupported, kNewerDriver},
    {ACL_ERROR_RT_MEMORY_ALLOCATION, "MEMORY_ALLOCATION", kOutOfMemory, kFreeMemory},
    {ACL_ERROR_RT_MEMORY_FREE, "MEMORY_FREE", kInternal, nullptr},
    {ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "RESOURCE_ALLOC_FAIL", kResourceExhausted, kFewerGraphs},
    {ACL_ERROR_RT_NO_EVENT_RESOURCE, "NO_EVENT_RESOURCE", kResourceExhausted, kFewerGraphs},
    {ACL_ERROR_RT_NO_STREAM_RESOURCE, "NO_STREAM_RESOURCE", kResourceExhausted, kFewerGraphs},
    {ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "NO_NOTIFY_RESOURCE", kResourceExhausted, kFewerGraphs},
    {ACL_ERROR_RT_NO_MODEL_RESOURCE, "NO_MODEL_RESOURCE", kResourceExhausted, kFewerGraphs},
    {ACL_ERROR_RT_OVER_LIMIT, "OVER_LIMIT", kResourceExhausted, nullptr},
    {ACL_ERROR_RT_DEVICE_OOM, "DEVICE_OOM", kOutOfMemory, kFreeMemory},
    {ACL_ERROR_RT_FEATURE_NOT_SUPPORT_UPDATE_OP, "FEATURE_NOT_SUPPORT_UPDATE_OP", kUnsupported, kNewerDriver},
    {ACL_ERROR_STORAGE_OVER_LIMIT, "STORAGE_OVER_LIMIT", kOutOfMemory, kFreeMemory},
    {ACLNN_ERR_RUNTIME_ERROR, "RUNTIME_ERROR", kInternal, nullptr},
    {ACL_ERROR_INTERNAL_ERROR, "INTERNAL_ERROR", kInternal, nullptr},
    {ACL_ERROR_FAILURE, "FAILURE", kInternal, nullptr},
    {ACL_ERROR_RT_FAILURE, "RT_FAILURE", kInternal, nullptr},
    {ACL_ERROR_RT_INTERNAL_ERROR, "INTERNAL_ERROR", kInternal, nullptr},
    {ACL_ERROR_RT_STREAM_TASK_FULL, "STREAM_TASK_FULL", kResourceExhausted, "synchronize the stream now and then"},
    {ACL_ERROR_RT_STREAM_NOT_COMPLETE, "STREAM_NOT_COMPLETE", kFailedPrecondition, nullptr},
    {ACL_ERROR_RT_EVENT_NOT_COMPLETE, "EVENT_NOT_COMPLETE", kFailedPrecondition, nullptr},
    {ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "TASK_TYPE_NOT_SUPPORT", kTaskGroupOperation, nullptr},
    {ACL_ERROR_RT_MODEL_EXECUTE, "MODEL_EXECUTE", kInternal, nullptr},
    {ACL_ERROR_RT_AICORE_TIMEOUT, "AICORE_TIMEOUT", kInternal, kReset},
    {ACL_ERROR_RT_AICORE_EXCEPTION, "AICORE_EXCEPTION", kInternal, kReset},
    {ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "STREAM_SYNC_TIMEOUT", kInternal, nullptr},
    {ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "EVENT_SYNC_TIMEOUT", kInternal, nullptr},
    {ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "STREAM_CAPTURE_INVALIDATED", kCaptureInvalidated, nullptr},
    {ACLNN_ERR_INNER, "INNER", kInternal, nullptr},
    {ACLNN_ERR_INNER_INFERSHAPE_ERROR, "INNER_INFERSHAPE_ERROR", kInvalidArgument, nullptr},
    {ACLNN_ERR_INNER_TILING_ERROR, "INNER_TILING_ERROR", kUnsupported, nullptr},
    {ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "INNER_FIND_KERNEL_ERROR", kUnsupported,
     "install the kernels' package of this CANN for this chip"},
    {ACLNN_ERR_INNER_CREATE_EXECUTOR, "INNER_CREATE_EXECUTOR", kInternal, nullptr},
    {ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR, "INNER_NOT_TRANS_EXECUTOR", kInternal, nullptr},
    {ACLNN_ERR_INNER_NULLPTR, "INNER_NULLPTR", kInternal, nullptr},
    {561107, "INNER_OPP_PATH_NOT_FOUND", kUnsupported, "set ASCEND_OPP_PATH, as CANN's set_env.sh does"},
    {561112, "INNER_OPP_KERNEL_PKG_NOT_FOUND", kUnsupported, "install the kernels' package of this CANN for this chip"},
});

static_assert(std::ranges::is_sorted(kCodes, {}, &CodeEntry::code));

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

void throw_acl_error(const AclLibrary& library, int code, std::string_view call, std::string_view doing) {
  Error error = acl_error(library, code, call, doing);
  const CodeEntry* entry = find_code(code);
  if (entry != nullptr && entry->remedy == kReset) throw DeviceLost(std::move(error));
  throw Error(std::move(error));
}

void discard_acl_message(const AclLibrary& library) noexcept {
  if (library.aclGetRecentErrMsg != nullptr) library.aclGetRecentErrMsg();
}

void log_acl(const AclLibrary& library, int code, std::string_view call, std::string_view doing) noexcept {
  try {
    if (code != ACL_SUCCESS) log_error("{}", acl_error(library, code, call, doing).what());
  } catch (const std::exception&) {
    // No memory for the text.
  }
}

}  // namespace reprise::device::ascend
