// Which operators and dtypes the emulated chip has.
#pragma once

#include "device/ascend/interface/acl_types.h"

namespace reprise::emulator {

/// Throws OperatorError when the vendor's documents say that the chip has no such operator. What they leave open is
/// taken as there.
void require_operator(const char* name);
/// The same for the dtype of an operator's argument.
void require_dtype(aclDataType dtype);

}  // namespace reprise::emulator
