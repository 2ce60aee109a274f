// Captured arguments are compared and hashed as bytes, so no argument struct may have a gap, whose bytes a compiler
// leaves as they were (clang has no way to clear them). The compiler is asked: that this file compiles is the test.

#pragma GCC diagnostic error "-Wpadded"

#include "kernels/cpu/attention.h"
#include "kernels/cpu/batch_matmul.h"
#include "kernels/cpu/byte_rows.h"
#include "kernels/cpu/causal_conv1d.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/experts.h"
#include "kernels/cpu/fused_norm.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/int8_linear.h"
#include "kernels/cpu/kernel_types.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/measure.h"
#include "kernels/cpu/moe.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/product_tiles.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/split_qkv.h"
