// The rotation of one head. Included by what is compiled once for each instruction set.

namespace reprise::kernels::cpu::REPRISE_ISA {

/// `angles`: the table's row of the position, [cos | sin]. y may be x.
template <typename T>
REPRISE_INLINE void rope_row(const T* x, T* y, const float* angles, int64_t head_dim) {
  const int64_t half = head_dim / 2;
  const float* cosine = angles;
  const float* sine = angles + half;
  for (int64_t i = 0; i < half; i += 16) {
    const int64_t left = half - i;
    const V low = load_up_to(x + i, left);
    const V high = load_up_to(x + half + i, left);
    const V c = load_up_to(cosine + i, left);
    const V s = load_up_to(sine + i, left);
    store_up_to(y + i, low * c - high * s, left);
    store_up_to(y + half + i, high * c + low * s, left);
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
