// Cases of host-tiled operators: batches of sequences.

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/conformance_cases.h"
#include "ops/host_tensor.h"
#include "tensor/bfloat16.h"

namespace reprise::ops {
namespace {

struct Batch {
  std::vector<int32_t> queries;
  std::vector<int32_t> keys;

  int64_t rows() const { return std::accumulate(queries.begin(), queries.end(), int64_t{0}); }
  int64_t sequences() const { return static_cast<int64_t>(queries.size()); }
  std::string to_string() const {
    std::string text;
    for (size_t s = 0; s < queries.size(); ++s) text += fmt::format(" {}/{}", queries[s], keys[s]);
    return text;
  }
};

void poison(const Tensor& tensor, int64_t first, int64_t count) {
  for (int64_t i = first; i < first + count; ++i) {
    if (tensor.dtype() == DType::kI8) {
      tensor.data_as<int8_t>()[i] = -1;
    } else if (tensor.dtype() == DType::kBF16) {
      tensor.data_as<BFloat16>()[i] = {0x7FC0};
    } else {
      tensor.data_as<float>()[i] = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

struct Heads {
  int64_t query, kv, dim;
};

/// A cache whose pages are dealt at random; every row of it that no sequence owns is NaN (of int8: its scale), unused
/// table entries point nowhere.
ConformanceCase attention_case(DType dtype, bool int8, const Batch& batch, int64_t page_size, const Heads& heads,
                               bool strided, std::mt19937& random) {
  int64_t most_pages = 1;
  int64_t used_pages = 0;
  for (const int32_t keys : batch.keys) {
    const int64_t pages = (keys + page_size - 1) / page_size;
    most_pages = std::max(most_pages, pages);
    used_pages += pages;
  }
  std::vector<int32_t> order(static_cast<size_t>(used_pages + 2));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);

  const Shape cache_shape{used_pages + 2, page_size, heads.kv, heads.dim};
  const auto make_cache = [&] {
    return int8 ? random_int8_tensor(cache_shape, random) : random_tensor(dtype, cache_shape, random);
  };
  const Tensor k_cache = make_cache();
  const Tensor v_cache = make_cache();
  Tensor k_scales;
  Tensor v_scales;
  std::vector<Tensor> caches = {k_cache, v_cache};
  if (int8) {
    for (Tensor* scales : {&k_scales, &v_scales}) {
      *scales = random_tensor(DType::kF32, {used_pages + 2, page_size, heads.kv}, random);
      for (int64_t i = 0; i < scales->shape().elements(); ++i) scales->data_as<float>()[i] *= 0.01f;
      caches.push_back(*scales);
    }
  }
  std::vector<int32_t> table(static_cast<size_t>(batch.sequences() * (most_pages + 1)), 0x7FFFFFFF);
  size_t next = 0;
  for (int64_t s = 0; s < batch.sequences(); ++s) {
    const int64_t keys = batch.keys[static_cast<size_t>(s)];
    for (int64_t page = 0; page * page_size < keys; ++page) {
      const int32_t physical = order[next++];
      table[static_cast<size_t>(s * (most_pages + 1) + page)] = physical;
      const int64_t used = std::min(page_size, keys - page * page_size);
      for (const Tensor& cache : caches) {
        poison(cache, (physical * page_size + used) * cache.stride(1), (page_size - used) * cache.stride(1));
      }
    }
  }
  for (; next < order.size(); ++next) {
    for (const Tensor& cache : caches) poison(cache, order[next] * cache.stride(0), cache.stride(0));
  }
  const Shape shape{batch.rows(), heads.query, heads.dim};
  // Larger queries make some keys matter much more than others.
  Tensor q = strided ? random_strided_tensor(dtype, shape, 1, random) : random_tensor(dtype, shape, random);
  const TensorMeta table_meta(DType::kI32, Shape{batch.sequences(), most_pages + 1});
  return {
      .op = "paged_attention",
      .name = fmt::format("{} pages of {}, {}/{} heads of {}, {}{}{}", batch.to_string(), page_size, heads.query,
                          heads.kv, heads.dim, name_of(dtype), int8 ? ", int8 cache" : "", strided ? ", strided" : ""),
      .inputs = {q, k_cache, v_cache, int_tensor(table).with_meta(table_meta), k_scales, v_scales},
      .attributes = {2.0},
      .lists = {batch.queries, batch.keys},
      .bound = rounded(dtype, 4e-6)};
}

void add_attention_cases(std::vector<ConformanceCase>& cases) {
  std::mt19937 random(4);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto add = [&](const Batch& batch, int64_t page_size, const Heads& heads, bool strided = false) {
      for (const bool int8 : {false, true}) {
        cases.push_back(attention_case(dtype, int8, batch, page_size, heads, strided, random));
      }
    };
    add({{}, {}}, 16, {2, 1, 8});
    add({{1}, {1}}, 16, {1, 1, 1});
    add({{1, 1, 1}, {0, 0, 0}}, 16, {2, 1, 8});
    add({{1, 1, 1, 1}, {17, 300, 0, 1}}, 16, {4, 2, 16});
    add({{1, 1}, {255, 257}}, 1, {3, 3, 31});
    add({{5, 1, 0, 3}, {5, 700, 0, 129}}, 5, {8, 1, 16}, true);
    add({{2, 33}, {0, 40}}, 16, {4, 2, 80});
    add({{33, 1}, {600, 1025}}, 64, {2, 1, 8});
    add({{3}, {31}}, 256, {6, 2, 128});
  }
}

void add_convolution_cases(std::vector<ConformanceCase>& cases) {
  std::mt19937 random(5);
  const Batch batches[] = {{{}, {}}, {{1}, {1}}, {{3, 1, 2, 5, 1, 0, 129}, {3, 9, 0, 7, 40, 6, 129}}};
  const std::vector<int32_t> slots = {2, 0, 1, 3, -1, 4, 5};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Batch& batch : batches) {
      for (const int64_t channels : {1, 3, 31, 64, 129}) {
        for (const int64_t width : {1, 2, 4, 8}) {
          const bool with_bias = width != 2;
          const Shape shape{batch.rows(), channels};
          cases.push_back(
              {.op = "causal_conv1d",
               .name = fmt::format("{}, {} channels, {} taps, {}", batch.to_string(), channels, width, name_of(dtype)),
               .inputs = {width == 4 ? random_strided_tensor(dtype, shape, 1, random)
                                     : random_tensor(dtype, shape, random),
                          random_tensor(DType::kF32, {channels, width}, random),
                          with_bias ? random_tensor(DType::kF32, {channels}, random) : Tensor(),
                          random_tensor(dtype, {6, width - 1, channels}, random),
                          int_tensor(std::span(slots).first(batch.queries.size()))},
               .lists = {batch.queries, batch.keys},
               .bound = rounded(dtype, 2e-6)});
        }
      }
    }
  }
}

}  // namespace

void add_sequence_cases(std::vector<ConformanceCase>& cases) {
  add_attention_cases(cases);
  add_convolution_cases(cases);
}

}  // namespace reprise::ops
