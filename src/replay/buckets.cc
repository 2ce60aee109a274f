#include "replay/buckets.h"

#include <algorithm>

#include "base/error.h"

namespace reprise::replay {
namespace {

std::vector<int32_t> sizes_by_rule(int32_t maximum, bool padding) {
  std::vector<int32_t> sizes;
  if (!padding) {
    for (int32_t size = 1; size <= maximum; ++size) sizes.push_back(size);
    return sizes;
  }
  for (const int32_t size : {1, 2, 4, 8, 12}) sizes.push_back(size);
  for (int32_t size = 16; size <= 256; size += 8) sizes.push_back(size);
  for (int32_t size = 272; size <= 496; size += 16) sizes.push_back(size);
  for (int32_t size = 512; size <= maximum; size += 32) sizes.push_back(size);
  std::erase_if(sizes, [&](int32_t size) { return size > maximum; });
  // Without the maximum itself, batches between the last step and it would run eagerly for ever.
  sizes.push_back(maximum);
  return sizes;
}

}  // namespace

std::vector<int32_t> choose_buckets(const BucketOptions& options) {
  if (options.max_running < 1) {
    throw Error(ErrorCode::kInvalidArgument, "the number of running requests is {}, must be at least 1",
                options.max_running);
  }
  for (const int32_t size : options.sizes) {
    if (size < 1) throw Error(ErrorCode::kInvalidArgument, "graph batch size {} must be at least 1", size);
  }
  if (options.max_size < 0) {
    throw Error(ErrorCode::kInvalidArgument, "the largest graph batch size {} must be at least 1", options.max_size);
  }
  std::vector<int32_t> sizes = options.sizes;
  if (sizes.empty()) {
    const int32_t wanted = options.max_size > 0 ? options.max_size : options.default_max;
    sizes = sizes_by_rule(std::min(wanted, options.max_running), options.padding);
  } else if (options.max_size > 0) {
    std::erase_if(sizes, [&](int32_t size) { return size > options.max_size; });
    if (sizes.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "no given graph batch size is at most the maximum {}", options.max_size);
    }
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  // No step needs a size above the smallest one that holds them all.
  const auto holds_all = std::lower_bound(sizes.begin(), sizes.end(), options.max_running);
  if (holds_all != sizes.end()) sizes.erase(holds_all + 1, sizes.end());
  return sizes;
}

std::vector<int32_t> choose_prefill_sizes(std::vector<int32_t> sizes, int32_t max_prefill_tokens) {
  std::sort(sizes.begin(), sizes.end());
  for (const int32_t size : sizes) {
    if (size < 2) {
      throw Error(ErrorCode::kInvalidArgument, "prefill graph size {} must be at least 2 tokens", size);
    }
    if (size > max_prefill_tokens) {
      throw Error(ErrorCode::kInvalidArgument, "prefill graph size {} exceeds max_prefill_tokens, which is {}", size,
                  max_prefill_tokens);
    }
  }
  const auto twin = std::adjacent_find(sizes.begin(), sizes.end());
  if (twin != sizes.end()) {
    throw Error(ErrorCode::kInvalidArgument, "prefill graph size {} is given twice", *twin);
  }
  return sizes;
}

int32_t largest_size_within(std::span<const int32_t> sizes, int32_t limit) {
  const auto above = std::upper_bound(sizes.begin(), sizes.end(), limit);
  return above == sizes.begin() ? 0 : *(above - 1);
}

int32_t bucket_for(std::span<const int32_t> buckets, int32_t rows) {
  const auto place = std::lower_bound(buckets.begin(), buckets.end(), rows);
  return place == buckets.end() ? 0 : *place;
}

}  // namespace reprise::replay
