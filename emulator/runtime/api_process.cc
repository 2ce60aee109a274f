// aclInit and what concerns the process.
#include <fmt/format.h>

#include "emulator/runtime/api_support.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/message_ring.h"
#include "emulator/runtime/settings.h"
#include "emulator/runtime/statistics.h"
#include "emulator/runtime/timing_report.h"
#include "emulator/runtime/validation/validation.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace): the interface is outside of it

namespace {

Status write_all_timing() {
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  for (const std::shared_ptr<Device>& device : runtime.devices()) {
    if (Status status = write_timing(*device); !status.ok()) return status;
  }
  return {};
}

}  // namespace

aclError aclInit(const char* configPath) {
  EMULATOR_CALL_NEEDS(kNothing, Other, configPath);
  EMULATOR_TRY(check_variables());
  EMULATOR_TRY(Runtime::instance().initialize());
  Status status = FaultPlan::instance().load_environment();
  if (status.ok()) status = Trace::instance().open_environment();
  if (status.ok()) status = Validation::instance().open_environment();
  if (status.ok()) status = check_timing_file();
  if (!status.ok()) {
    Trace::instance().close();
    (void)Validation::instance().finish();
    (void)Runtime::instance().finalize();
    return call.result(status);
  }
  ApiCall::set_initialized(true);
  return call.result(ACL_SUCCESS);
}

aclError aclFinalize(void) {
  EMULATOR_CALL_NEEDS(kNothing, Other);
  EMULATOR_OUTSIDE_HOST_FUNCTIONS
  Status status = write_statistics();
  if (status.ok()) status = write_all_timing();
  // Calls of other threads are refused from here on.
  ApiCall::set_initialized(false);
  const Status validated = Validation::instance().finish();
  EMULATOR_TRY(Runtime::instance().finalize());
  FaultPlan::instance().tell_unused();
  if (status.ok()) status = FaultPlan::instance().write_counts();
  if (status.ok()) status = validated;
  if (status.ok()) status = Trace::instance().status();
  return call.result(status);
}

aclError aclFinalizeReference(uint64_t* refCount) {
  EMULATOR_CALL_NEEDS(kNothing, Other, refCount);
  const aclError code = call.answer(aclFinalize());
  if (refCount) *refCount = 0;
  return code;
}

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  EMULATOR_CALL_NEEDS(kNothing, Other, majorVersion, minorVersion, patchVersion);
  EMULATOR_REQUIRE(majorVersion);
  EMULATOR_REQUIRE(minorVersion);
  EMULATOR_REQUIRE(patchVersion);
  Profile profile;
  EMULATOR_TRY(Profile::from_environment(profile));
  *majorVersion = profile.version[0];
  *minorVersion = profile.version[1];
  *patchVersion = profile.version[2];
  return call.result(ACL_SUCCESS);
}

const char* aclrtGetSocName(void) {
  ApiCall call(__func__, CallKind::kOther, ApiCall::Needs::kNothing, __builtin_return_address(0), "", {});
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  return runtime.profile().soc.empty() ? nullptr : runtime.profile().soc.c_str();
}

const char* aclGetRecentErrMsg(void) {
  ApiCall call(__func__, CallKind::kOther, ApiCall::Needs::kNothing, __builtin_return_address(0), "", {});
  const char* text = drain_messages();
  // The trace shows what it gave.
  call.say(text ? text : "");
  return text;
}

// These two answer another call's failure, which is none of theirs.
aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  EMULATOR_CALL_NEEDS(kNothing, Other, level);
  return call.answer(level == ACL_RT_THREAD_LEVEL ? peek_last_error() : ACL_ERROR_RT_PARAM_INVALID);
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  EMULATOR_CALL_NEEDS(kNothing, Other, level);
  return call.answer(level == ACL_RT_THREAD_LEVEL ? take_last_error() : ACL_ERROR_RT_PARAM_INVALID);
}

namespace {

Status check_option(aclSysParamOpt option) {
  if (option >= ACL_OPT_DETERMINISTIC && option <= ACL_OPT_KERNEL_EARLY_START) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no parameter of the system", static_cast<int>(option)));
}

}  // namespace

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  EMULATOR_CALL(Other, opt, value);
  EMULATOR_TRY(check_option(opt));
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  runtime.set_system_parameter(opt, value);
  return call.result(ACL_SUCCESS);
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  EMULATOR_CALL(Other, opt, value);
  EMULATOR_REQUIRE(value);
  EMULATOR_TRY(check_option(opt));
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  *value = runtime.system_parameter(opt);
  return call.result(ACL_SUCCESS);
}
