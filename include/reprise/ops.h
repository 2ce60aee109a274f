#pragma once

// The operators that methods are written in: `ops::rms_norm(context, x, weight, epsilon)`; streams, events and core
// limits: `const auto side = ops::stream(context, "side")`.
#include "ops/attention.h"
#include "ops/batch_matmul.h"
#include "ops/convolution.h"
#include "ops/copies.h"
#include "ops/dispatch_call.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/fused_norm.h"
#include "ops/kv_cache.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/quantize.h"
#include "ops/rope.h"
#include "ops/scatter.h"
#include "ops/scopes.h"
#include "ops/swiglu.h"
#include "ops/views.h"
