#include "engine/kv_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "engine/fake_device.h"
#include "tensor/bfloat16.h"

namespace reprise::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

model::KvLayout attention_layout() {
  using Granularity = model::KvBuffer::Granularity;
  return {{{"layers.0.k", Granularity::kToken, DType::kBF16, {2, 8}},
           {"layers.0.v", Granularity::kToken, DType::kF32, {4}}}};
}

model::KvLayout layout_with_state() {
  model::KvLayout layout = attention_layout();
  layout.buffers.push_back({"layers.0.conv", model::KvBuffer::Granularity::kSequence, DType::kF32, {3, 5}});
  return layout;
}

KvPoolOptions small_options() {
  KvPoolOptions options;
  options.page_size = 4;
  options.tokens = 20;
  options.scratch_slots = 6;
  options.sequences = 2;
  return options;
}

std::byte* entry(const Tensor& tensor, int32_t index) {
  return tensor.data_as<std::byte>() +
         static_cast<size_t>(index) * tensor.meta().contiguous_bytes() / static_cast<size_t>(tensor.size(0));
}

bool is_poisoned(const Tensor& tensor, int32_t index) {
  const size_t bytes = tensor.meta().contiguous_bytes() / static_cast<size_t>(tensor.size(0));
  return std::all_of(entry(tensor, index), entry(tensor, index) + bytes,
                     [](std::byte byte) { return byte == std::byte{0xFF}; });
}

TEST(KvPool, AllocatesABufferForEachOfTheLayoutInItsOrder) {
  FakeDevice device;
  const KvPool pool(device, layout_with_state(), small_options());
  ASSERT_EQ(pool.tensors().size(), 3u);
  // Two scratch pages hold six slots, five pages hold twenty tokens.
  EXPECT_EQ(pool.tensors()[0].meta().to_string(), "bfloat16[7, 4, 2, 8]");
  EXPECT_EQ(pool.tensors()[1].meta().to_string(), "float32[7, 4, 4]");
  EXPECT_EQ(pool.tensors()[2].meta().to_string(), "float32[8, 3, 5]");
  EXPECT_EQ(pool.bytes(), 7u * 4 * 16 * 2 + 7 * 4 * 4 * 4 + 8 * 15 * 4);
  EXPECT_EQ(device.allocated, pool.bytes());
}

TEST(KvPool, B47ScratchIsReservedAtStartHoweverFullThePoolIs) {
  FakeDevice device;
  KvPool pool(device, layout_with_state(), small_options());
  EXPECT_EQ(pool.scratch_pages(), 2);
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(pool.usable_pages(), pages));
  EXPECT_EQ(pool.free_pages(), 0);
  EXPECT_THAT(pages, testing::Each(testing::Ge(2)));
  EXPECT_EQ(std::set<int32_t>(pages.begin(), pages.end()).size(), 5u);
  EXPECT_FALSE(pool.allocate(1, pages));
  EXPECT_EQ(pages.size(), 5u);
  EXPECT_EQ(pool.allocate_sequence_slot(), 6);
  EXPECT_EQ(pool.allocate_sequence_slot(), 7);
  EXPECT_EQ(pool.allocate_sequence_slot(), -1);
}

TEST(KvPool, GivesBackWhatWasTaken) {
  FakeDevice device;
  KvPool pool(device, attention_layout(), small_options());
  std::vector<int32_t> first;
  std::vector<int32_t> second;
  ASSERT_TRUE(pool.allocate(3, first));
  ASSERT_TRUE(pool.allocate(2, second));
  EXPECT_FALSE(pool.allocate(1, second));
  pool.release(first);
  EXPECT_EQ(pool.free_pages(), 3);
  std::vector<int32_t> third;
  ASSERT_TRUE(pool.allocate(3, third));
  EXPECT_THAT(third, testing::UnorderedElementsAreArray(first));
}

TEST(KvPool, RefusesToReleaseWhatIsFreeOrScratch) {
  FakeDevice device;
  KvPool pool(device, layout_with_state(), small_options());
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(1, pages));
  pool.release(pages);
  EXPECT_THROW(pool.release(pages), Error);
  EXPECT_THROW(pool.release(std::vector<int32_t>{0}), Error);
  EXPECT_THROW(pool.release(std::vector<int32_t>{7}), Error);
  EXPECT_THROW(pool.release_sequence_slot(0), Error);
  EXPECT_EQ(pool.free_pages(), 5);
}

TEST(KvPool, ShufflingChangesTheOrderOnly) {
  FakeDevice device;
  KvPoolOptions options = small_options();
  options.tokens = 400;
  KvPool ordered(device, attention_layout(), options);
  options.shuffle_seed = 9;
  KvPool shuffled(device, attention_layout(), options);
  std::vector<int32_t> in_order;
  std::vector<int32_t> anywhere;
  ASSERT_TRUE(ordered.allocate(100, in_order));
  ASSERT_TRUE(shuffled.allocate(100, anywhere));
  EXPECT_NE(in_order, anywhere);
  EXPECT_TRUE(std::is_permutation(in_order.begin(), in_order.end(), anywhere.begin()));
}

TEST(KvPool, PoisonFillsWhatIsNotInUseWithNan) {
  FakeDevice device;
  KvPoolOptions options = small_options();
  options.poison = true;
  KvPool pool(device, layout_with_state(), options);
  for (int32_t page = 0; page < pool.pages(); ++page) {
    for (size_t i : {0u, 1u}) EXPECT_TRUE(is_poisoned(pool.tensors()[i], page)) << page;
  }
  EXPECT_TRUE(std::isnan(to_float(*pool.tensors()[0].data_as<BFloat16>())));
  EXPECT_TRUE(std::isnan(*pool.tensors()[1].data_as<float>()));

  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(2, pages));
  for (const int32_t page : pages) {
    for (size_t i : {0u, 1u}) *entry(pool.tensors()[i], page) = std::byte{1};
  }
  pool.release(std::span(pages).first(1));
  for (size_t i : {0u, 1u}) {
    EXPECT_TRUE(is_poisoned(pool.tensors()[i], pages[0]));
    EXPECT_FALSE(is_poisoned(pool.tensors()[i], pages[1]));
  }
}

KvPoolOptions caching_options() {
  KvPoolOptions options = small_options();
  options.poison = true;
  options.prefix_cache = true;
  return options;
}

TEST(KvPool, APageIsFreeWhenItsLastHolderGoes) {
  FakeDevice device;
  KvPool pool(device, attention_layout(), caching_options());
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(2, pages));
  const std::vector<int32_t> tokens{1, 2, 3, 4};
  const PrefixCache::Node node = pool.add_cached(pages[0], PrefixCache::kRoot, "", tokens);
  EXPECT_EQ(node.page, pages[0]);
  EXPECT_FALSE(pool.find_cached(node.id, "", tokens)) << "nothing is known behind it";
  EXPECT_FALSE(pool.find_cached(PrefixCache::kRoot, "secret", tokens));
  ASSERT_TRUE(pool.find_cached(PrefixCache::kRoot, "", tokens));  // a second holder
  *entry(pool.tensors()[0], pages[0]) = std::byte{1};
  pool.release(pages);
  EXPECT_EQ(pool.free_pages(), 4);
  EXPECT_EQ(pool.cached_pages(), 0);
  pool.release(std::span(pages).first(1));
  EXPECT_EQ(pool.free_pages(), 5) << "a page that is only cached can be had";
  EXPECT_EQ(pool.cached_pages(), 1);
  EXPECT_FALSE(is_poisoned(pool.tensors()[0], pages[0]));
  EXPECT_THROW(pool.release(std::span(pages).first(1)), Error);
  ASSERT_TRUE(pool.find_cached(PrefixCache::kRoot, "", tokens));
  EXPECT_EQ(pool.cached_pages(), 0);
  EXPECT_EQ(pool.free_pages(), 4);
}

TEST(KvPool, TheSameContentIsKeptOnce) {
  FakeDevice device;
  KvPool pool(device, attention_layout(), caching_options());
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(2, pages));
  const std::vector<int32_t> tokens{1, 2, 3, 4};
  const PrefixCache::Node first = pool.add_cached(pages[0], PrefixCache::kRoot, "a", tokens);
  const PrefixCache::Node second = pool.add_cached(pages[1], PrefixCache::kRoot, "a", tokens);
  EXPECT_EQ(second.page, pages[0]);
  EXPECT_EQ(second.id, first.id);
  EXPECT_EQ(pool.free_pages(), 4);
  EXPECT_TRUE(is_poisoned(pool.tensors()[0], pages[1]));
  pool.release({&pages[0], 1});
  pool.release({&pages[0], 1});
  EXPECT_EQ(pool.cached_pages(), 1);
}

TEST(KvPool, CachedPagesGoInTheOrderInWhichTheyWereGivenUpTheLastOfASequenceFirst) {
  FakeDevice device;
  KvPool pool(device, attention_layout(), caching_options());
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(5, pages));
  const auto tokens = [](int32_t token) { return std::vector<int32_t>(4, token); };
  const PrefixCache::Node root = pool.add_cached(pages[0], PrefixCache::kRoot, "", tokens(0));
  const PrefixCache::Node leaf = pool.add_cached(pages[1], root.id, "", tokens(1));
  EXPECT_EQ(leaf.page, pages[1]);
  pool.add_cached(pages[2], PrefixCache::kRoot, "", tokens(2));
  pool.release(std::span(pages).first(2));
  pool.release(std::span(pages).subspan(2, 1));
  EXPECT_EQ(pool.cached_pages(), 3);

  std::vector<int32_t> taken;
  ASSERT_TRUE(pool.allocate(1, taken));
  EXPECT_TRUE(is_poisoned(pool.tensors()[0], taken[0])) << "what was evicted must not be read";
  EXPECT_FALSE(pool.find_cached(root.id, "", tokens(1)));
  ASSERT_TRUE(pool.find_cached(PrefixCache::kRoot, "", tokens(0)));
  ASSERT_TRUE(pool.allocate(1, taken));
  EXPECT_FALSE(pool.find_cached(PrefixCache::kRoot, "", tokens(2)));
  EXPECT_FALSE(pool.allocate(1, taken)) << "all are held";
  pool.release({&pages[0], 1});
  EXPECT_EQ(pool.cached_pages(), 1);
  pool.flush_cache();
  EXPECT_EQ(pool.cached_pages(), 0);
  EXPECT_EQ(pool.free_pages(), 1);
  EXPECT_TRUE(is_poisoned(pool.tensors()[0], pages[0]));
  EXPECT_FALSE(pool.find_cached(PrefixCache::kRoot, "", tokens(0)));
}

TEST(KvPool, PagesOfAModelWithStateForEachSequenceAreNotCached) {
  FakeDevice device;
  EXPECT_FALSE(KvPool(device, layout_with_state(), caching_options()).has_prefix_cache());
  EXPECT_TRUE(KvPool(device, attention_layout(), caching_options()).has_prefix_cache());
}

TEST(KvPool, StateOfASequenceBeginsWithZeros) {
  FakeDevice device;
  KvPoolOptions options = small_options();
  options.poison = true;
  KvPool pool(device, layout_with_state(), options);
  const int32_t slot = pool.allocate_sequence_slot();
  const float* state = reinterpret_cast<float*>(entry(pool.tensors()[2], slot));
  EXPECT_TRUE(std::all_of(state, state + 15, [](float value) { return value == 0; }));
  pool.release_sequence_slot(slot);
  EXPECT_TRUE(is_poisoned(pool.tensors()[2], slot));
}

TEST(KvPool, ChecksumsFollowTheContentOfAllBuffers) {
  FakeDevice device;
  KvPoolOptions options = small_options();
  options.poison = true;
  const KvPool pool(device, layout_with_state(), options);
  const uint64_t before = pool.page_checksum(3);
  EXPECT_EQ(pool.page_checksum(5), before);
  entry(pool.tensors()[1], 3)[15] = std::byte{0};
  EXPECT_NE(pool.page_checksum(3), before);
  entry(pool.tensors()[1], 5)[15] = std::byte{0};
  EXPECT_EQ(pool.page_checksum(5), pool.page_checksum(3));
  EXPECT_EQ(pool.page_checksum(4), before);
  const uint64_t state = pool.sequence_checksum(6);
  entry(pool.tensors()[2], 6)[59] = std::byte{0};
  EXPECT_NE(pool.sequence_checksum(6), state);
}

TEST(KvPool, OptionsOutOfRangeAreNamed) {
  FakeDevice device;
  const auto refused = [&](void (*change)(KvPoolOptions&), const char* field) {
    KvPoolOptions options = small_options();
    change(options);
    try {
      const KvPool pool(device, attention_layout(), options);
      ADD_FAILURE() << field;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.message(), HasSubstr(field));
    }
  };
  refused([](KvPoolOptions& o) { o.page_size = 0; }, "page_size");
  refused([](KvPoolOptions& o) { o.tokens = 0; }, "tokens");
  refused([](KvPoolOptions& o) { o.tokens = int64_t{1} << 31; }, "tokens");
  refused([](KvPoolOptions& o) { o.sequences = 0; }, "sequences");
  refused([](KvPoolOptions& o) { o.scratch_slots = -1; }, "scratch_slots");
}

TEST(KvPool, MemoryThatIsNotThereIsReportedWithTheBuffer) {
  FakeDevice device;
  device.memory_limit = 1000;
  try {
    const KvPool pool(device, attention_layout(), small_options());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_THAT(error.message(), HasSubstr("layers.0.v"));
  }
  EXPECT_EQ(device.allocated, 0u);
}

TEST(KvPool, CapacityForRequestsIsThatOfTheLargestThatRunTogether) {
  const std::vector<RequestSize> requests{{10, 7}, {1, 1}, {30, 3}, {5, 5}};
  EXPECT_EQ(kv_tokens_for(requests, 1, 16), 32);
  EXPECT_EQ(kv_tokens_for(requests, 2, 16), 48);
  EXPECT_EQ(kv_tokens_for(requests, 9, 16), 80);
  EXPECT_EQ(kv_tokens_for(requests, 9, 1), 16 + 1 + 32 + 9);
  EXPECT_THROW(kv_tokens_for(requests, 9, 0), Error);
  EXPECT_THROW(kv_tokens_for(requests, 9, -1), Error);
}

}  // namespace
}  // namespace reprise::engine
