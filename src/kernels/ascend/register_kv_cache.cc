#include "kernels/ascend/register_families.h"

// Writing to the caches of keys and values, alone and behind the norms and angles of queries and keys.

namespace reprise::kernels::ascend {
namespace {

constexpr size_t kQkv = 0, kQWeight = 1, kKWeight = 2, kQBias = 3, kKBias = 4, kPositions = 5, kTable = 6, kSlots = 7;
constexpr size_t kKCache = 8, kVCache = 9, kKScales = 10, kVScales = 11;

void compose_store(Composer& c) {
  const auto& inputs = c.call().inputs;
  store_keys_and_values(c, c.input(0), c.input(1), c.input(2), inputs[3], inputs[4], inputs[5], inputs[6]);
}

/// The parts [tokens, heads, width] of merged rows.
struct MergedHeads {
  TensorView q, k, v;
};

MergedHeads split(const Composer& c) {
  const int64_t heads = c.call().int_attribute(0);
  const int64_t kv_heads = c.call().int_attribute(1);
  const TensorView all = c.input(kQkv).split_last(heads + 2 * kv_heads);
  return {all.slice(1, 0, heads), all.slice(1, heads, heads + kv_heads),
          all.slice(1, heads + kv_heads, heads + 2 * kv_heads)};
}

/// One part, normed, stored as the operator by itself would store it, and widened.
TensorView normed(Composer& c, const TensorView& part, size_t weight, size_t bias) {
  const TensorView y = c.scratch_like(part, part.dtype);
  const double epsilon = c.call().float_attribute(2);
  if (c.has(bias)) {
    rms_norm_bias(c, part, c.input(weight), c.input(bias), epsilon, y);
  } else {
    rms_norm(c, part, c.input(weight), epsilon, y);
  }
  return as_dtype(c, y, ACL_FLOAT);
}

void norm_and_rotate(Composer& c, const MergedHeads& parts, const TensorView& q, const TensorView& k) {
  const TensorView wide_q = normed(c, parts.q, kQWeight, kQBias);
  const TensorView wide_k = normed(c, parts.k, kKWeight, kKBias);
  const bool stored = q.dtype == ACL_FLOAT;
  const TensorView turned_q = stored ? q : c.scratch_like(q, ACL_FLOAT);
  const TensorView turned_k = stored ? k : c.scratch_like(k, ACL_FLOAT);
  rotate(c, wide_q, turned_q, wide_k, turned_k, c.input(kPositions), c.input(kTable));
  if (stored) return;
  move(c, turned_q, q);
  move(c, turned_k, k);
}

void compose_split(Composer& c) { norm_and_rotate(c, split(c), c.output(0), c.output(1)); }

void compose_split_store(Composer& c) {
  const MergedHeads parts = split(c);
  const TensorView k = c.scratch_like(parts.k, parts.k.dtype);
  norm_and_rotate(c, parts, c.output(0), k);
  const auto& inputs = c.call().inputs;
  store_keys_and_values(c, k, parts.v, c.input(kSlots), inputs[kKCache], inputs[kVCache], inputs[kKScales],
                        inputs[kVScales]);
}

}  // namespace

void store_rows(Composer& c, const TensorView& rows, const TensorView& cache, const TensorView& other_rows,
                const TensorView& other_cache, const TensorView& slots) {
  const auto bits = [](const TensorView& view) { return view.dtype == ACL_INT8 ? view : view.as_16_bit(); };
  // Without another pair the operator gets one of no elements.
  const bool both = other_rows.defined();
  const TensorView none = bits(rows).slice(0, 0, 0);
  const TensorView no_cache = bits(cache).slice(0, 0, 0);
  c.launch(c.aclnn().aclnnScatterPaKvCache, bits(rows), bits(cache), slots, both ? bits(other_rows) : none,
           both ? bits(other_cache) : no_cache, kAbsent, kAbsent, kAbsent, "Norm", "None", kAbsent, kAbsent);
}

void store_keys_and_values(Composer& c, const TensorView& k, const TensorView& v, const TensorView& slots,
                           const Tensor& k_cache, const Tensor& v_cache, const Tensor& k_scales,
                           const Tensor& v_scales) {
  const TensorView keys = TensorView::of(k_cache);
  const TensorView values = TensorView::of(v_cache);
  if (!k_scales.defined()) return store_rows(c, k, keys, v, values, slots);
  const auto quantized = [&](const TensorView& rows, TensorView& row_scales) {
    const TensorView bytes = c.scratch_like(rows, ACL_INT8);
    row_scales = c.scratch(ACL_FLOAT, {rows.sizes[0], rows.sizes[1]});
    dynamic_quantize(c, rows, {}, bytes, row_scales);
    return bytes;
  };
  TensorView row_scales[2];
  const TensorView k_bytes = quantized(k, row_scales[0]);
  const TensorView v_bytes = quantized(v, row_scales[1]);
  store_rows(c, k_bytes, keys, v_bytes, values, slots);
  // The scales of a row's heads are rows of one element.
  const auto as_heads = [](const TensorView& view) {
    TensorView heads = view;
    heads.sizes[heads.rank] = 1;
    heads.strides[heads.rank++] = 1;
    return heads;
  };
  store_rows(c, as_heads(row_scales[0]), as_heads(TensorView::of(k_scales)), as_heads(row_scales[1]),
             as_heads(TensorView::of(v_scales)), slots);
}

void register_kv_cache(ops::Registry& registry, const Resources& resources) {
  set_kernel<compose_store>(registry, "store_kv", resources);
  set_kernel<compose_split>(registry, "split_qkv_rms_norm_rope", resources, 7);
  set_kernel<compose_split_store>(registry, "split_qkv_rms_norm_rope_store", resources, 8);
}

}  // namespace reprise::kernels::ascend
