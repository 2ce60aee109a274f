// The C interface as this library defines it: the shared declarations, made visible outside of it.
#pragma once

#pragma GCC visibility push(default)
#include "device/ascend/interface/acl_graph.h"
#include "device/ascend/interface/acl_runtime.h"
#pragma GCC visibility pop
