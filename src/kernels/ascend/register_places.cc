#include "kernels/ascend/register_families.h"

// moe_place: no operator of aclnn looks experts up in a map, so it is made of arithmetic on whole numbers.

namespace reprise::kernels::ascend {
namespace {

constexpr int64_t as_int32(uint32_t bits) { return static_cast<int32_t>(bits); }

TensorView times(Composer& c, const TensorView& x, int64_t factor) {
  const TensorView y = c.scratch_like(x, x.dtype);
  c.launch(c.aclnn().aclnnMuls, x, scalar(factor), y);
  return y;
}

TensorView bits_of(Composer& c, const TensorView& x, int64_t mask) {
  const TensorView y = c.scratch_like(x, x.dtype);
  c.launch(c.aclnn().aclnnBitwiseAndScalar, x, scalar(mask), y);
  return y;
}

/// x ^ (x >> bits) of unsigned 32-bit numbers.
TensorView mixed(Composer& c, const TensorView& x, int64_t bits) {
  const TensorView shifted = c.scratch_like(x, x.dtype);
  c.launch(c.aclnn().aclnnRightShift, x, constant(c, bits, x.dtype), shifted);
  // What a signed shift brings in at the top goes.
  const TensorView low = bits_of(c, shifted, (int64_t{1} << (32 - bits)) - 1);
  const TensorView y = c.scratch_like(x, x.dtype);
  c.launch(c.aclnn().aclnnBitwiseXorTensor, x, low, y);
  return y;
}

/// int64 [tokens, 1]: each token's draw, of 32 bits.
TensorView draws(Composer& c, const TensorView& positions) {
  const int64_t tokens = positions.sizes[0];
  const TensorView numbers = c.scratch(ACL_INT32, {tokens});
  c.launch(c.aclnn().aclnnArange, scalar(int64_t{0}), scalar(tokens), scalar(int64_t{1}), numbers);
  const TensorView sum = c.scratch(ACL_INT32, {tokens});
  c.launch(c.aclnn().aclnnAdd, times(c, positions, as_int32(0x9E3779B1u)), times(c, numbers, as_int32(0x85EBCA77u)),
           scalar(int64_t{1}), sum);
  const TensorView hash = mixed(c, times(c, mixed(c, sum, 15), as_int32(0x2C1B3C6Du)), 12);
  return bits_of(c, as_dtype(c, hash, ACL_INT64), 0xFFFFFFFF).reshaped({tokens, 1});
}

void compose_place(Composer& c) {
  const TensorView chosen = c.input(0);
  const TensorView map = c.input(1);
  const TensorView out = c.output(0);
  const int64_t tokens = chosen.sizes[0];
  const int64_t top_k = chosen.sizes[1];
  const int64_t count = tokens * top_k;
  const int64_t columns = map.sizes[1];
  const auto int32_like_chosen = [&] { return c.scratch(ACL_INT32, {tokens, top_k}); };
  const TensorView zero = constant(c, 0, ACL_INT32);
  const TensorView one = constant(c, 1, ACL_INT32);

  const TensorView not_negative = int32_like_chosen();
  const TensorView safe = int32_like_chosen();
  c.launch(c.aclnn().aclnnMaximum, chosen, zero, not_negative);
  c.launch(c.aclnn().aclnnMinimum, not_negative, constant(c, map.sizes[0] - 1, ACL_INT32), safe);
  const TensorView rows = c.scratch(ACL_INT32, {count, columns});
  c.launch(c.aclnn().aclnnIndexSelect, map, int64_t{0}, safe.reshaped({count}), rows);
  const TensorView copies = int32_like_chosen();
  move(c, rows.slice(1, 0, 1).as_rows(), copies.reshaped({count, 1}));

  if (!c.has(2)) {
    move(c, rows.slice(1, 1, 2).as_rows(), out.reshaped({count, 1}));
  } else {
    const TensorView at_most = int32_like_chosen();
    const TensorView usable = int32_like_chosen();
    c.launch(c.aclnn().aclnnMinimum, copies, constant(c, columns - 1, ACL_INT32), at_most);
    c.launch(c.aclnn().aclnnMaximum, at_most, one, usable);
    const TensorView scaled = c.scratch(ACL_INT64, {tokens, top_k});
    c.launch(c.aclnn().aclnnMul, draws(c, c.input(2)), as_dtype(c, usable, ACL_INT64), scaled);
    const TensorView drawn = c.scratch(ACL_INT64, {tokens, top_k});
    c.launch(c.aclnn().aclnnFloorDivides, scaled, scalar(int64_t{1} << 32), drawn);
    const TensorView first = times(c, as_dtype(c, safe, ACL_INT64), columns);
    const TensorView index = c.scratch(ACL_INT64, {tokens, top_k});
    c.launch(c.aclnn().aclnnAdd, first, drawn, scalar(int64_t{1}), index);
    const TensorView place = c.scratch(ACL_INT64, {tokens, top_k});
    c.launch(c.aclnn().aclnnAdds, index, scalar(int64_t{1}), scalar(int64_t{1}), place);
    c.launch(c.aclnn().aclnnIndexSelect, map.reshaped({map.elements()}), int64_t{0}, place.reshaped({count}),
             out.reshaped({count}));
  }

  const TensorView none = c.scratch(ACL_BOOL, {tokens, top_k});
  const auto clear = [&] { masked_fill(c, out, none, scalar(int64_t{-1})); };
  c.launch(c.aclnn().aclnnLtTensor, chosen, zero, none);
  clear();
  c.launch(c.aclnn().aclnnGeTensor, chosen, constant(c, map.sizes[0], ACL_INT32), none);
  clear();
  c.launch(c.aclnn().aclnnLtTensor, copies, one, none);
  clear();
}

}  // namespace

void register_places(ops::Registry& registry, const Resources& resources) {
  set_kernel<compose_place>(registry, "moe_place", resources);
}

}  // namespace reprise::kernels::ascend
