#include "replay/buckets.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace reprise::replay {
namespace {

BucketOptions options(int32_t max_running, int32_t max_size = 0, std::vector<int32_t> sizes = {}) {
  BucketOptions result;
  result.max_running = max_running;
  result.max_size = max_size;
  result.sizes = std::move(sizes);
  return result;
}

}  // namespace

TEST(Buckets, FollowTheRuleUpTo256) {
  const std::vector<int32_t> sizes = choose_buckets(options(256, 256));
  EXPECT_EQ(sizes.size(), 36u);
  EXPECT_EQ(sizes.front(), 1);
  EXPECT_EQ(sizes[4], 12);
  EXPECT_EQ(sizes.back(), 256);
  EXPECT_EQ(choose_buckets(options(512, 512)).size(), 52u);
}

TEST(Buckets, AlwaysIncludeTheMaximum) {
  EXPECT_EQ(choose_buckets(options(100, 100)).back(), 100);
  EXPECT_EQ(choose_buckets(options(600, 600)).back(), 600);
  EXPECT_EQ(choose_buckets(options(7)), (std::vector<int32_t>{1, 2, 4, 7}));
}

TEST(Buckets, DefaultMaximumIsTheSmallerOf32AndTheRunningRequests) {
  EXPECT_EQ(choose_buckets(options(1000)).back(), 32);
  EXPECT_EQ(choose_buckets(options(1)), (std::vector<int32_t>{1}));
}

TEST(Buckets, WithoutPaddingEverySizeIsCaptured) {
  BucketOptions exact = options(5);
  exact.padding = false;
  EXPECT_EQ(choose_buckets(exact), (std::vector<int32_t>{1, 2, 3, 4, 5}));
}

TEST(Buckets, B42GivenSizesAreSortedKeptAndChecked) {
  EXPECT_EQ(choose_buckets(options(6, 0, {8, 2, 2, 1})), (std::vector<int32_t>{1, 2, 8}));
  EXPECT_EQ(choose_buckets(options(3, 0, {4})), (std::vector<int32_t>{4}));
  EXPECT_EQ(choose_buckets(options(8, 0, {1, 4})), (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(choose_buckets(options(3, 0, {16, 4, 1, 8})), (std::vector<int32_t>{1, 4})) << "4 holds what 8 would";
  EXPECT_THROW(choose_buckets(options(6, 0, {0, 2})), Error);
  EXPECT_THROW(choose_buckets(options(6, 1, {2, 4})), Error);
  EXPECT_THROW(choose_buckets(options(0)), Error);
  EXPECT_THROW(choose_buckets(options(4, -1)), Error);
}

TEST(Buckets, ABatchIsPaddedToTheNextOne) {
  const std::vector<int32_t> sizes = {1, 2, 4, 8};
  EXPECT_EQ(bucket_for(sizes, 1), 1);
  EXPECT_EQ(bucket_for(sizes, 3), 4);
  EXPECT_EQ(bucket_for(sizes, 8), 8);
  EXPECT_EQ(bucket_for(sizes, 9), 0);
}

TEST(PrefillSizes, AreSortedAndChecked) {
  EXPECT_EQ(choose_prefill_sizes({}, 512), std::vector<int32_t>());
  EXPECT_EQ(choose_prefill_sizes({512, 128, 256}, 512), (std::vector<int32_t>{128, 256, 512}));
  const auto refused = [](std::vector<int32_t> sizes, const char* what) {
    try {
      choose_prefill_sizes(std::move(sizes), 512);
      ADD_FAILURE() << "accepted: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  refused({128, 0}, "size 0 must be at least 2");
  refused({-4}, "size -4 must be at least 2");
  refused({1}, "size 1 must be at least 2");
  refused({128, 64, 128}, "size 128 is given twice");
  refused({64, 513}, "size 513 exceeds max_prefill_tokens, which is 512");
}

TEST(PrefillSizes, TheLargestThatFitsIsTaken) {
  const std::vector<int32_t> sizes = {16, 64};
  EXPECT_EQ(largest_size_within(sizes, 15), 0);
  EXPECT_EQ(largest_size_within(sizes, 16), 16);
  EXPECT_EQ(largest_size_within(sizes, 63), 16);
  EXPECT_EQ(largest_size_within(sizes, 1000), 64);
  EXPECT_EQ(largest_size_within({}, 1000), 0);
}

}  // namespace reprise::replay
