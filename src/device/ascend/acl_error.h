#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "device/ascend/acl_library.h"

namespace reprise::device::ascend {

/// What a code of AscendCL or of its operators means to Reprise.
ErrorCode error_code_of(int code);

/// "107027 (STREAM_CAPTURED)".
std::string acl_code_text(int code);

/// The error for a call that failed with this code: what was being done, the call, the code, what the runtime says of
/// it, and the remedy where one is known. Takes the runtime's message, so it is for the thread that made the call,
/// right after it.
Error acl_error(const AclLibrary& library, int code, std::string_view call, std::string_view doing);
/// The same as another kind of error, where the code alone does not tell.
Error acl_error_as(ErrorCode kind, const AclLibrary& library, int code, std::string_view call, std::string_view doing);

/// Throws acl_error(); as DeviceLost where the code says that the device does nothing any more.
[[noreturn]] void throw_acl_error(const AclLibrary& library, int code, std::string_view call, std::string_view doing);

/// The same unless the code is that of success.
inline void check_acl(const AclLibrary& library, int code, std::string_view call, std::string_view doing) {
  if (code != ACL_SUCCESS) [[unlikely]]
    throw_acl_error(library, code, call, doing);
}
/// For a call whose failure is met in another way: the next error shall not tell of it.
void discard_acl_message(const AclLibrary& library) noexcept;
/// For destructors: writes to the log and goes on.
void log_acl(const AclLibrary& library, int code, std::string_view call, std::string_view doing) noexcept;

}  // namespace reprise::device::ascend
