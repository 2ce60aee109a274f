#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/ascend/register_families.h"
#include "ops/attention.h"

// paged_attention: one launch, whose host lists are the plan: for each sequence where its rows end, then how many keys
// each has. Blocks of keys and block tables are read on the device.

namespace reprise::kernels::ascend {
namespace {

constexpr int64_t kRightDownCausal = 3;
constexpr int64_t kAnyTokens = 2147483647;
/// How int8 keys and values are scaled: a scale for each token and head, in pages like the cache.
constexpr int64_t kScaleOfPagedHeads = 5;
constexpr int64_t kPageMultiple = 16, kMostPageSize = 512;

void check_supported(const ops::OpCall& call) {
  const Tensor& q = call.inputs[0];
  if (q.dtype() != DType::kBF16 && q.dtype() != DType::kF16) {
    throw Error(ErrorCode::kUnsupported, "paged_attention: fused attention takes no queries of {} on this device",
                reprise::name_of(q.dtype()))
        .remedy("run the model with --dtype bfloat16, or on another device");
  }
  const int64_t page_size = call.inputs[1].size(1);
  if (page_size % kPageMultiple != 0 || page_size > kMostPageSize) {
    throw Error(ErrorCode::kUnsupported,
                "paged_attention: pages of {} tokens, expected a multiple of {} up to {} on this device", page_size,
                kPageMultiple, kMostPageSize)
        .remedy("use pages of 128 tokens: --page-size 128");
  }
}

void plan(const ops::OpCall& call, ops::Tiling& tiling) {
  ops::check_attention_lists(call);
  const std::span<const int32_t> queries = call.lists[0].values;
  const std::span<const int32_t> keys = call.lists[1].values;
  const int64_t sequences = call.inputs[3].size(0);
  if (sequences > 0) check_supported(call);
  if (call.inputs[4].defined() && std::any_of(queries.begin(), queries.end(), [](int32_t rows) { return rows > 1; })) {
    throw Error(
        ErrorCode::kUnsupported,
        "paged_attention: an int8 cache with more than one row of a sequence, whose scales fused attention does "
        "not take on this device")
        .remedy("keep keys and values in the model's dtype, or read prompts token by token: --max-prefill-tokens 1");
  }
  tiling.values.reserve(2 * queries.size());
  int32_t end = 0;
  for (const int32_t rows : queries) tiling.values.push_back(end += rows);
  tiling.values.insert(tiling.values.end(), keys.begin(), keys.end());
  tiling.tiles = sequences;
}

/// The lists of the plan; without one, the longest that the shapes allow.
struct Lengths {
  std::vector<int64_t> row_ends, keys;
};

/// An int8 cache is read for one row of each sequence at most.
int64_t measured_rows(const ops::OpCall& call) {
  const int64_t rows = call.inputs[0].size(0);
  return call.inputs[4].defined() ? std::min(rows, call.inputs[3].size(0)) : rows;
}

Lengths lengths_of(const Composer& c) {
  const ops::OpCall& call = c.call();
  const int64_t sequences = call.inputs[3].size(0);
  Lengths lengths;
  if (call.tiling != nullptr && !c.measures()) {
    const auto& values = call.tiling->values;
    lengths.row_ends.assign(values.begin(), values.begin() + sequences);
    lengths.keys.assign(values.begin() + sequences, values.end());
    return lengths;
  }
  const int64_t rows = measured_rows(call);
  for (int64_t s = 1; s <= sequences; ++s) lengths.row_ends.push_back(rows * s / sequences);
  lengths.keys.assign(static_cast<size_t>(sequences), call.inputs[3].size(1) * call.inputs[1].size(1));
  return lengths;
}

/// Scales [pages, page size, heads] as the operator's [pages, heads, page size].
TensorView scales_of(const Tensor& scales) {
  return scales.defined() ? TensorView::of(scales).transposed(1, 2) : TensorView();
}

void compose(Composer& c) {
  check_supported(c.call());
  const auto& inputs = c.call().inputs;
  if (inputs[3].size(0) == 0) return;
  const int64_t rows = c.measures() ? measured_rows(c.call()) : c.input(0).sizes[0];
  const TensorView q = without_gaps(c, c.input(0)).slice(0, 0, rows);
  const int64_t heads = q.sizes[1];
  const TensorView cache = c.input(1);
  const int64_t page_size = cache.sizes[1];
  const int64_t kv_heads = cache.sizes[2];
  const auto pages = [&](size_t input) {
    return c.input(input).reshaped({cache.sizes[0], page_size, kv_heads * cache.sizes[3]});
  };
  const TensorView keys = pages(1);
  const TensorView values = pages(2);
  const Lengths lengths = lengths_of(c);
  const TensorView log_sum_exp = c.scratch(ACL_FLOAT, {1});
  const int64_t scale_mode = inputs[4].defined() ? kScaleOfPagedHeads : 0;
  // The arguments of all versions, and those that the newer one has between them.
  const auto launch = [&](auto max_workspace, const auto& op, auto... between) {
    const auto call = [&](auto... modes) {
      c.launch_measured_by(
          max_workspace, op, q, list_of(keys), list_of(values), kAbsent, TensorView::of(c.resources().causal_mask),
          std::span<const int64_t>(lengths.row_ends), std::span<const int64_t>(lengths.keys), kAbsent, kAbsent, kAbsent,
          kAbsent, kAbsent, kAbsent, kAbsent, c.input(3), kAbsent, kAbsent, scales_of(inputs[4]), kAbsent,
          scales_of(inputs[5]), kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, between..., heads,
          c.call().float_attribute(0), kAnyTokens, kAnyTokens, "TND", kv_heads, kRightDownCausal, int64_t{0}, page_size,
          int64_t{0}, false, scale_mode, scale_mode, modes..., c.output(0).slice(0, 0, rows), log_sum_exp);
    };
    if constexpr (sizeof...(between) == 0) {
      call();
    } else {
      call(int64_t{0}, int64_t{0});  // how queries are quantised, and positions shifted: not at all
    }
  };
  if (c.resources().newer_attention) {
    launch(c.aclnn().attention_max_workspace_v5, c.aclnn().aclnnFusedInferAttentionScoreV5, kAbsent, kAbsent, kAbsent,
           kAbsent);
  } else {
    launch(c.aclnn().attention_max_workspace, c.aclnn().aclnnFusedInferAttentionScoreV3);
  }
}

}  // namespace

void register_attention(ops::Registry& registry, const Resources& resources) {
  registry.get("paged_attention")
      .set_kernel(std::string(kDeviceName), {.run = run_composed<compose>,
                                             .plan = plan,
                                             .max_workspace = measure_composed<compose>,
                                             .resources = resources});
}

}  // namespace reprise::kernels::ascend
