#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::replay {

/// Which batch sizes are captured.
struct BucketOptions {
  std::vector<int32_t> sizes;  ///< given by the user; empty: by rule
  int32_t max_size = 0;        ///< given by the user; 0: `default_max`
  int32_t default_max = 32;
  int32_t max_running = 1;  ///< requests that may run at a time
  bool padding = true;      ///< false: by rule, every size up to the maximum
};

/// The sizes in ascending order, each once. Of given ones that hold max_running the smallest is kept. By rule up to the
/// smaller of maximum and max_running, itself included: 1 2 4 8 12, 16 to 256 in steps of 8, to 496 in steps of 16,
/// then of 32. kInvalidArgument for sizes or a maximum below 1, and when nothing is left.
std::vector<int32_t> choose_buckets(const BucketOptions& options);

/// Sizes of prompt steps to capture, in ascending order. kInvalidArgument for duplicates, for sizes above
/// `max_prefill_tokens`, and for those below 2: a step of one token is a decode step.
std::vector<int32_t> choose_prefill_sizes(std::vector<int32_t> sizes, int32_t max_prefill_tokens);

/// The largest of the ascending sizes that is at most `limit`, or 0.
int32_t largest_size_within(std::span<const int32_t> sizes, int32_t limit);

/// The smallest bucket that holds `rows`, or 0.
int32_t bucket_for(std::span<const int32_t> buckets, int32_t rows);

}  // namespace reprise::replay
