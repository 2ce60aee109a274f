// The border between the emulator's runtime and the library of operators' objects: the calls of that library as the
// trace and the validation layer see them, and what becomes of its objects.
#pragma once

#include "emulator/kernel.h"

namespace reprise::emulator {

/// What users of the interface make and destroy.
enum class ObjectKind {
  kContext,
  kStream,
  kEvent,
  kNotify,
  kGraph,
  kDeviceMemory,
  kHostMemory,
  kTensor,
  kScalar,
  kIntArray,
  kFloatArray,
  kBoolArray,
  kTensorList,
  kScalarList,
  kExecutor,
};

enum class ObjectEvent { kCreated, kDestroyed, kDestroyedAgain, kUsedDestroyed };

}  // namespace reprise::emulator

extern "C" {
/// A call of the public interface begins in this thread; `name` is a static text, and `return_address` is in the
/// program. Every begin has its end, in reverse order.
EMULATOR_EXPORT void* emulatorCallBegin(const char* name, void* return_address);
/// Traces the call with its arguments, an object of JSON, and keeps `text` for aclGetRecentErrMsg() if `code` is that
/// of a failure. Both texts may be null.
EMULATOR_EXPORT void emulatorCallEnd(void* call, int code, const char* text, const char* arguments);
/// The arguments of the operator's call that this thread is in, an object of JSON.
EMULATOR_EXPORT void emulatorOperatorArguments(const char* arguments);
/// Whether anybody will read the arguments.
EMULATOR_EXPORT bool emulatorTraces();
/// For the validation layer; part of the call that this thread is in.
EMULATOR_EXPORT void emulatorObjectEvent(reprise::emulator::ObjectEvent event, reprise::emulator::ObjectKind kind,
                                         const void* object);
}
