// The activation of feed-forward layers. Included by what is compiled once for each instruction set.

namespace reprise::kernels::cpu::REPRISE_ISA {

REPRISE_INLINE V silu_of(V a) { return a / (set(1.0f) + exp(zero() - a)); }

/// silu(a) rounded as a store of T would, times b.
template <typename T>
REPRISE_INLINE V silu_mul_of(V a, V b) {
  return rounded_as(silu_of(a), static_cast<const T*>(nullptr)) * b;
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
