#pragma once

// The public library of Reprise: compile a method written in operator calls, and replay it.
#include "base/error.h"
#include "base/log.h"
#include "reprise/backend.h"
#include "reprise/compile.h"
#include "reprise/library.h"
#include "reprise/ops.h"
#include "reprise/options.h"
