#pragma once

#include <memory>
#include <string_view>

#include "kernels/ascend/composer.h"
#include "ops/registry.h"

// What the registration files share: how a description of an operator becomes its kernel, and the pieces that several
// operators are made of.

namespace reprise::kernels::ascend {

inline constexpr std::string_view kDeviceName = "ascend";

using Resources = std::shared_ptr<const AscendResources>;
using Compose = void (*)(Composer&);

/// Whether a call has no rows to work on, so that nothing is launched.
bool is_empty(const ops::OpCall& call);

template <Compose kCompose>
void run_composed(const ops::OpCall& call) {
  if (is_empty(call)) return;
  Composer composer(call);
  kCompose(composer);
}

template <Compose kCompose>
size_t measure_composed(const ops::OpCall& call) {
  return is_empty(call) ? 0 : Composer::measure(call, kCompose);
}

/// Calls of an operator, as a rule; those of a model's step are as many on the whole.
inline constexpr int kUsualLaunches = 2;

template <Compose kCompose>
void set_kernel(ops::Registry& registry, std::string_view op, const Resources& resources,
                int launches = kUsualLaunches) {
  registry.get(op).set_kernel(std::string(kDeviceName), {.run = run_composed<kCompose>,
                                                         .max_workspace = measure_composed<kCompose>,
                                                         .launches = launches,
                                                         .resources = resources});
}

// Pieces. Each launches in order on the call's stream.

/// to = from, in the dtype of `to`.
void move(Composer& composer, const TensorView& from, const TensorView& to);
/// The view itself, or a copy of it in another dtype.
TensorView as_dtype(Composer& composer, const TensorView& view, aclDataType dtype);
/// The view itself, or a copy of it without gaps.
TensorView without_gaps(Composer& composer, const TensorView& view);
void fill(Composer& composer, const TensorView& to, const ScalarArgument& value);
/// A tensor [1] that holds a number.
TensorView constant(Composer& composer, int64_t value, aclDataType dtype);
/// out = a + b, computed in the wider dtype of the two.
void add(Composer& composer, const TensorView& a, const TensorView& b, const TensorView& out);
void masked_fill(Composer& composer, const TensorView& to, const TensorView& mask, const ScalarArgument& value);
/// y = x normed over the last axis. `weight` may be float32 beside 16-bit rows.
void rms_norm(Composer& composer, const TensorView& x, const TensorView& weight, double epsilon, const TensorView& y);
/// The same with a bias behind it, rounded once.
void rms_norm_bias(Composer& composer, const TensorView& x, const TensorView& weight, const TensorView& bias,
                   double epsilon, const TensorView& y);
/// y = table[ids], in the dtype of y.
void look_up(Composer& composer, const TensorView& table, const TensorView& ids, const TensorView& y);
/// Whether a static quantisation divides rows by their scale: one that was given in their dtype, of 16 bits.
bool divides_by(const TensorView& x, const TensorView& scale);
/// The one value of a tensor [1] as often as another vector has values.
TensorView spread(Composer& composer, const TensorView& one, const TensorView& like);
/// The factors of a static quantisation that multiplies: 1 / scale.
TensorView inverse_of(Composer& composer, const TensorView& scale);
void quantize(Composer& composer, const TensorView& x, const TensorView& scale, const TensorView& offset,
              const TensorView& y);
void dynamic_quantize(Composer& composer, const TensorView& x, const TensorView& smooth_scales, const TensorView& y,
                      const TensorView& scales);
/// [gate, up] along the last axis where they lie (or, without memory, may lie) in one tensor; otherwise absent.
TensorView joined_halves(const Composer& composer, const Tensor& gate, const Tensor& up);
/// SwiGLU of [gate, up] and its quantisation.
void swiglu_dynamic_quantize(Composer& composer, const TensorView& joined, const TensorView& y,
                             const TensorView& scales);
void swiglu(Composer& composer, const Tensor& gate, const Tensor& up, const TensorView& y);
/// Rows of `rows` [n, heads, width] to the slots of `cache` [pages, page size, heads, width]; negative slots are left
/// out. The other pair may be absent.
void store_rows(Composer& composer, const TensorView& rows, const TensorView& cache, const TensorView& other_rows,
                const TensorView& other_cache, const TensorView& slots);
/// Keys and values [n, heads, width] to their caches; the caches are int8 where there are scales.
void store_keys_and_values(Composer& composer, const TensorView& k, const TensorView& v, const TensorView& slots,
                           const Tensor& k_cache, const Tensor& v_cache, const Tensor& k_scales,
                           const Tensor& v_scales);
/// Turns rows [n, heads, width] by the positions' angles in `table`; float32. `other` may be absent.
void rotate(Composer& composer, const TensorView& x, const TensorView& y, const TensorView& other,
            const TensorView& other_y, const TensorView& positions, const TensorView& table);
/// A product's factors in the dtype in which it is computed: the matrix [.., K, N], widened where x is float32.
TensorView matrix_in(Composer& composer, const TensorView& matrix, aclDataType dtype);

}  // namespace reprise::kernels::ascend
