// What the parts below the C interface answer: a code of the interface and a text that says why.
#pragma once

#include <string>
#include <utility>

#include "device/ascend/interface/acl_types.h"

namespace reprise::emulator {

struct Status {
  aclError code = ACL_SUCCESS;
  std::string text;

  Status() = default;
  Status(aclError error, std::string reason) : code(error), text(std::move(reason)) {}
  bool ok() const { return code == ACL_SUCCESS; }
};

}  // namespace reprise::emulator
