// Compiled once for each instruction set, see foreach_instruction_set.h.

#include "kernels/cpu/combine_row_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Keeps `value` among the `count` largest of at most `top_k`, which are in descending order. Of equal ones the first
/// comes first. Returns the new count.
REPRISE_INLINE int64_t keep_largest(float value, int32_t index, int64_t count, int64_t top_k, float* values,
                                    int32_t* indices) {
  if (count == top_k && !(value > values[top_k - 1])) return count;
  int64_t at = count == top_k ? top_k - 1 : count;
  for (; at > 0 && value > values[at - 1]; --at) {
    values[at] = values[at - 1];
    indices[at] = indices[at - 1];
  }
  values[at] = value;
  indices[at] = index;
  return count == top_k ? count : count + 1;
}

/// The largest logit and the sum of e^(logit - largest).
template <typename T>
REPRISE_INLINE void softmax_terms(const T* logits, int64_t count, float& largest, float& sum) {
  const float lowest = -__builtin_inff();
  V most = set(lowest);
  for (int64_t i = 0; i < count; i += 16) {
    most = max(most, keep_first(load_up_to(logits + i, count - i), count - i, lowest));
  }
  largest = reduce_max(most);
  V total = zero();
  for (int64_t i = 0; i < count; i += 16) {
    const V terms = exp(load_up_to(logits + i, count - i) - set(largest));
    total = total + keep_first(terms, count - i, 0.0f);
  }
  sum = reduce_add(total);
}

template <typename T>
REPRISE_INLINE void gate_row(const T* logits, const GatingArguments& a, float* weights, int32_t* experts) {
  int64_t kept = 0;
  for (int64_t i = 0; i < a.expert_count; ++i) {
    const float logit = to_float(logits[i]);
    const float key = logit != logit ? -__builtin_inff() : logit;
    kept = keep_largest(key, static_cast<int32_t>(i), kept, a.top_k, weights, experts);
  }
  float largest;
  float sum;
  softmax_terms(logits, a.expert_count, largest, sum);
  for (int64_t j = 0; j < a.top_k; j += 16) {
    const V chosen = exp(load_up_to(weights + j, a.top_k - j) - set(largest)) / set(sum);
    store_up_to(weights + j, chosen, a.top_k - j);
  }
  if (!a.renormalize) return;
  float total = 0;
  for (int64_t j = 0; j < a.top_k; ++j) total += weights[j];
  for (int64_t j = 0; j < a.top_k; ++j) weights[j] = weights[j] / total;
}

template <typename T>
void gating(const void* arguments, int64_t first, int64_t last) {
  const GatingArguments& a = *static_cast<const GatingArguments*>(arguments);
  const int64_t tokens = a.token_count == nullptr ? a.tokens : *a.token_count;
  for (int64_t row = first; row < last; ++row) {
    float* weights = a.weights + row * a.top_k;
    int32_t* experts = a.experts + row * a.top_k;
    if (row < tokens) {
      gate_row(static_cast<const T*>(a.logits) + row * a.logits_row_stride, a, weights, experts);
      continue;
    }
    for (int64_t j = 0; j < a.top_k; ++j) {
      weights[j] = 0;
      experts[j] = -1;
    }
  }
}

template <typename T>
void combine(const void* arguments, int64_t first, int64_t last) {
  const CombineArguments& a = *static_cast<const CombineArguments*>(arguments);
  const int64_t pieces = (a.columns + kCombineColumns - 1) / kCombineColumns;
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t begin = tile % pieces * kCombineColumns;
    combine_piece<T>(a, tile / pieces, begin, smaller(kCombineColumns, a.columns - begin));
  }
}

constexpr MoeKernels kMoeKernels = {{gating<float>, gating<Bf16>}, {combine<float>, combine<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
