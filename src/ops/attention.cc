#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

void infer_paged_attention(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& q = call.inputs[0];
  require_float(call, 0);
  require_rank(call, 0, 3);
  require_dense_rows(call, 0);
  for (const size_t cache : {1, 2}) {
    require_cache_dtype(call, cache, call.inputs[4].defined());
    require_rank(call, cache, 4);
    require_contiguous(call, cache);
  }
  const Shape& cache = call.inputs[1].shape();
  require_shape(call, 2, cache);
  const int64_t heads = q.size(1);
  const int64_t kv_heads = cache.size(2);
  if (kv_heads == 0 || heads % kv_heads != 0 || cache[3] != q.shape()[2] || cache[1] == Dim(0)) {
    fail_argument(call, 1,
                  fmt::format("has shape {}, which does not go with argument 'q' of shape {}", cache.to_string(),
                              q.shape().to_string()));
  }
  require_kv_scales(call, 4, cache);
  const Tensor& tables = call.inputs[3];
  require_dtype(call, 3, DType::kI32);
  require_rank(call, 3, 2);
  require_contiguous(call, 3);
  require_sequences(call, q.shape()[0], tables.shape()[0]);
  const int64_t most_keys = tables.size(1) * cache.size(1);
  for (const int32_t length : call.lists[1].values) {
    if (length > most_keys) {
      fail_list(call, 1,
                fmt::format("has the entry {}, more than the {} keys that a block table of {} pages of {} holds",
                            length, most_keys, tables.size(1), cache.size(1)));
    }
  }
  outputs[0] = TensorMeta(q.dtype(), q.shape());
}

/// The rows of a cache, and their scales, which are 1 where there are none.
class CacheReader {
 public:
  CacheReader(const Tensor& cache, const Tensor& scales) : cache_(cache), scales_(scales), rows_(cache) {}
  double operator()(int64_t row, int64_t column) const {
    if (!scales_.defined()) return rows_(row, column);
    return cache_.data_as<int8_t>()[row * rows_.columns() + column];
  }
  double scale(int64_t row) const { return scales_.defined() ? scales_.data_as<float>()[row] : 1.0; }

 private:
  const Tensor& cache_;
  const Tensor& scales_;
  RowReader rows_;
};

/// One row and head: scores, softmax, weighted sum.
void attend(const OpCall& call, int64_t sequence, int64_t row, int64_t head, int64_t keys) {
  const Tensor& q_tensor = call.inputs[0];
  const Tensor& cache = call.inputs[1];
  const RowReader q(q_tensor);
  const CacheReader k(cache, call.inputs[4]);
  const CacheReader v(call.inputs[2], call.inputs[5]);
  RowWriter out(call.outputs[0]);
  const int64_t heads = q_tensor.size(1);
  const int64_t kv_heads = cache.size(2);
  const int64_t page_size = cache.size(1);
  const int32_t* table = call.inputs[3].data_as<int32_t>() + sequence * call.inputs[3].size(1);
  const auto key_row = [&](int64_t key) {
    const int32_t page = table[key / page_size];
    REPRISE_CHECK(page >= 0 && page < cache.size(0));
    return (page * page_size + key % page_size) * kv_heads + head / (heads / kv_heads);
  };

  std::vector<double> weights(static_cast<size_t>(keys));
  double largest = -INFINITY;
  for (int64_t key = 0; key < keys; ++key) {
    double score = 0;
    for (int64_t i = 0; i < q.columns(); ++i)
      score += static_cast<double>(q(row * heads + head, i)) * k(key_row(key), i);
    weights[static_cast<size_t>(key)] = score * (k.scale(key_row(key)) * call.float_attribute(0));
    largest = std::max(largest, weights[static_cast<size_t>(key)]);
  }
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - largest);
  for (int64_t key = 0; key < keys; ++key) weights[static_cast<size_t>(key)] *= v.scale(key_row(key));
  for (int64_t i = 0; i < q.columns(); ++i) {
    double sum = 0;
    for (int64_t key = 0; key < keys; ++key) sum += weights[static_cast<size_t>(key)] * v(key_row(key), i);
    out.set(row * heads + head, i, static_cast<float>(keys == 0 ? 0.0 : sum / total));
  }
}

void reference_paged_attention(const OpCall& call) {
  int64_t row = 0;
  for (size_t s = 0; s < call.lists[0].values.size(); ++s) {
    const int64_t queries = call.lists[0].values[s];
    const int64_t kv_length = call.lists[1].values[s];
    for (int64_t r = 0; r < queries; ++r, ++row) {
      const int64_t keys = kv_length == 0 ? 0 : kv_length - queries + r + 1;
      for (int64_t head = 0; head < call.inputs[0].size(1); ++head) {
        attend(call, static_cast<int64_t>(s), row, head, keys);
      }
    }
  }
}

}  // namespace

void check_attention_lists(const OpCall& call) {
  const std::span<const int32_t> queries = call.lists[0].values;
  const std::span<const int32_t> keys = call.lists[1].values;
  const int64_t sequences = call.inputs[3].size(0);
  if (static_cast<int64_t>(queries.size()) != sequences || static_cast<int64_t>(keys.size()) != sequences) {
    throw Error(ErrorCode::kInvalidArgument, "paged_attention: host lists of {} and {} entries for {} block tables",
                queries.size(), keys.size(), sequences);
  }
  const int64_t most_keys = call.inputs[3].size(1) * call.inputs[1].size(1);
  for (const int32_t length : keys) {
    if (length > most_keys) {
      throw Error(ErrorCode::kInvalidArgument,
                  "paged_attention: {} keys, more than the {} that a block table of {} pages of {} holds", length,
                  most_keys, call.inputs[3].size(1), call.inputs[1].size(1));
    }
  }
}

Tensor paged_attention(ForwardContext& context, const Tensor& q, const Tensor& k_cache, const Tensor& v_cache,
                       double scale, const KvScales& scales, std::source_location where) {
  return dispatch_call(context, "paged_attention", {q, k_cache, v_cache, context.block_tables, scales.k, scales.v},
                       {context.query_lengths, context.kv_lengths}, {scale}, where);
}

void register_attention(Registry& registry) {
  registry.add(
      OpDef("paged_attention(Tensor q, Tensor k_cache, Tensor v_cache, Tensor block_tables, Tensor? k_scales, "
            "Tensor? v_scales, int[]^ query_lengths, int[]^ kv_lengths, *, float scale) -> Tensor out",
            {.host_tiled = true}, infer_paged_attention, reference_paged_attention));
}

}  // namespace reprise::ops
