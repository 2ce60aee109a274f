// The objects of the interface by address, those that were destroyed among them.
#pragma once

#include <memory>

#include "emulator/objects.h"
#include "emulator/operators/exported.h"

namespace reprise::emulator {

constexpr ObjectKind kind_of(const aclTensor*) { return ObjectKind::kTensor; }
constexpr ObjectKind kind_of(const aclScalar*) { return ObjectKind::kScalar; }
constexpr ObjectKind kind_of(const aclIntArray*) { return ObjectKind::kIntArray; }
constexpr ObjectKind kind_of(const aclFloatArray*) { return ObjectKind::kFloatArray; }
constexpr ObjectKind kind_of(const aclBoolArray*) { return ObjectKind::kBoolArray; }
constexpr ObjectKind kind_of(const aclTensorList*) { return ObjectKind::kTensorList; }
constexpr ObjectKind kind_of(const aclScalarList*) { return ObjectKind::kScalarList; }
constexpr ObjectKind kind_of(const aclOpExecutor*) { return ObjectKind::kExecutor; }

template <typename T>
concept MetaObject = requires(const T* object) { kind_of(object); };

// A registry tells objects from what only looks like one: nothing is read behind an address that it does not know.
// Destroyed objects are kept for a while, so that their addresses are not given out again, and in any case until the
// calls that use them are over, whoever destroys them meanwhile. Thread-safe.

/// From now on the object belongs to the registry.
void adopt_object(ObjectKind kind, const void* object, void (*release)(const void*));
/// False, with a report, when it is none of this kind that lives.
bool destroy_object(ObjectKind kind, const void* object);

template <MetaObject T>
T* adopt(std::unique_ptr<T> object) {
  adopt_object(kind_of(object.get()), object.get(), [](const void* it) { delete static_cast<const T*>(it); });
  return object.release();
}

}  // namespace reprise::emulator

#pragma GCC visibility push(default)
extern "C" {
/// Whether it is an object of this kind that lives; else a report says where it was destroyed. One that lives may be
/// read by this thread until its call is over.
bool emulatorUseObject(reprise::emulator::ObjectKind kind, const void* object);
/// The same without a report.
bool emulatorKnowsObject(reprise::emulator::ObjectKind kind, const void* object);
/// This thread's call, the outermost one, is over.
void emulatorEndUses();
}
#pragma GCC visibility pop
