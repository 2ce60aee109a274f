#pragma once

#include <optional>

#include "device/ascend/acl_library.h"
#include "device/modelled_costs.h"

namespace reprise::device::ascend {

/// What an emulator tells of a device; nothing where the library is none, or an older one.
std::optional<ModelledCosts> emulated_costs(const AclLibrary& library, int device_id);

}  // namespace reprise::device::ascend
