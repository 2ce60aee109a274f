// The public interface, declared so that what these libraries define of it can be seen outside.
#pragma once

#pragma GCC visibility push(default)
#include "device/ascend/interface/acl_meta.h"
#include "device/ascend/interface/acl_operators.h"
#include "device/ascend/interface/acl_runtime.h"
#pragma GCC visibility pop
