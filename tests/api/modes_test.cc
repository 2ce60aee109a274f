#include <array>
#include <map>

#include "api/library_test_support.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"

namespace reprise {
namespace {

constexpr int64_t kHidden = 32;
constexpr int64_t kHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kHeadDim = 8;
constexpr int64_t kFeedForward = 48;
constexpr int64_t kPages = 40;
constexpr int64_t kPageSize = 4;
constexpr int64_t kTablePages = 4;

/// One decode layer of a transformer with weights and a cache of its own.
class Block {
 public:
  explicit Block(Library& library) : library_(library) {
    norm1_ = random_tensor(library, {kHidden}, 1);
    norm2_ = random_tensor(library, {kHidden}, 2);
    q_ = weight({kHeads * kHeadDim, kHidden}, 3);
    k_ = weight({kKvHeads * kHeadDim, kHidden}, 4);
    v_ = weight({kKvHeads * kHeadDim, kHidden}, 5);
    o_ = weight({kHidden, kHeads * kHeadDim}, 6);
    gate_ = weight({kFeedForward, kHidden}, 7);
    up_ = weight({kFeedForward, kHidden}, 8);
    down_ = weight({kHidden, kFeedForward}, 9);
    table_ = random_tensor(library, {64, kHeadDim}, 10);
  }

  /// What a method of it is given beside the tokens.
  struct Step {
    Tensor x, positions, slots, tables;
    std::vector<int32_t> query_lengths, kv_lengths;
  };

  /// `rows` sequences of different lengths, on pages that are not in order.
  Step step(int64_t rows, int seed) const {
    Step step;
    step.x = random_tensor(library_, {rows, kHidden}, seed);
    std::vector<int32_t> positions, slots, tables;
    for (int32_t row = 0; row < rows; ++row) {
      const int32_t position = (7 * row + seed) % static_cast<int32_t>(kTablePages * kPageSize);
      positions.push_back(position);
      step.query_lengths.push_back(1);
      step.kv_lengths.push_back(position + 1);
      for (int32_t page = 0; page < kTablePages; ++page) {
        tables.push_back(static_cast<int32_t>(kPages) - 1 - (row * static_cast<int32_t>(kTablePages) + page));
      }
      const int32_t page = tables[static_cast<size_t>(row * kTablePages + position / kPageSize)];
      slots.push_back(page * static_cast<int32_t>(kPageSize) + position % static_cast<int32_t>(kPageSize));
    }
    step.positions = integer_tensor(library_, {rows}, positions);
    step.slots = integer_tensor(library_, {rows}, slots);
    step.tables = integer_tensor(library_, {rows, kTablePages}, tables);
    return step;
  }

  auto method() const {
    return [*this](Context& context, Tensor x, Tensor positions, Tensor slots, Tensor tables, Tensor k_cache,
                   Tensor v_cache, HostList query_lengths, HostList kv_lengths) {
      context.positions = positions;
      context.slots = slots;
      context.block_tables = tables;
      context.query_lengths = query_lengths;
      context.kv_lengths = kv_lengths;
      return forward(context, x, k_cache, v_cache);
    };
  }

 private:
  Tensor weight(const Shape& shape, int seed) { return pack_weight(library_, random_tensor(library_, shape, seed)); }

  Tensor forward(Context& context, const Tensor& x, const Tensor& k_cache, const Tensor& v_cache) const {
    const Dim rows = x.shape()[0];
    const Tensor h = ops::rms_norm(context, x, norm1_, 1e-6);
    const auto heads = [&](const Tensor& w, int64_t count) {
      return ops::reshape(context, ops::linear(context, h, {w, {}}), {rows, count, kHeadDim});
    };
    const Tensor q = ops::rope(context, heads(q_, kHeads), table_);
    const Tensor k = ops::rope(context, heads(k_, kKvHeads), table_);
    ops::store_kv(context, k, heads(v_, kKvHeads), k_cache, v_cache);
    const Tensor attention = ops::paged_attention(context, q, k_cache, v_cache, 0.35);
    const Tensor o = ops::linear(context, ops::reshape(context, attention, {rows, kHeads * kHeadDim}), {o_, {}});
    const Tensor middle = ops::add(context, x, o);
    const Tensor g = ops::rms_norm(context, middle, norm2_, 1e-6);
    const Tensor activated =
        ops::mul(context, ops::silu(context, ops::linear(context, g, {gate_, {}})), ops::linear(context, g, {up_, {}}));
    return ops::add(context, middle, ops::linear(context, activated, {down_, {}}));
  }

  Library& library_;
  Tensor norm1_, norm2_, q_, k_, v_, o_, gate_, up_, down_, table_;
};

/// Everything that twelve steps over random batch sizes from 1 to 9 return and leave in the caches.
std::vector<std::vector<float>> run_block(Library& library, const MethodOptions& options, MethodCounters* counters) {
  const Block block(library);
  auto method = library.compile(block.method(), options);
  const Shape cache = {kPages, kPageSize, kKvHeads, kHeadDim};
  const Tensor k_cache = random_tensor(library, cache, 20);
  const Tensor v_cache = random_tensor(library, cache, 21);
  std::vector<std::vector<float>> contents;
  int seed = 0;
  for (const int64_t rows : {4, 9, 1, 2, 4, 7, 3, 9, 8, 1, 6, 5}) {
    const Block::Step step = block.step(rows, ++seed);
    contents.push_back(library.to_floats(method(step.x, step.positions, step.slots, step.tables, k_cache, v_cache,
                                                step.query_lengths, step.kv_lengths)));
  }
  contents.push_back(library.to_floats(k_cache));
  contents.push_back(library.to_floats(v_cache));
  if (counters != nullptr) *counters = method.counters();
  return contents;
}

class Modes : public ::testing::TestWithParam<int> {
 protected:
  static const std::vector<std::vector<float>>& expected() {
    static const std::vector<std::vector<float>> contents = [] {
      Library library = Library::open("cpu", 1);
      MethodOptions options;
      options.mode = Mode::kEager;
      return run_block(library, options, nullptr);
    }();
    return contents;
  }
};

TEST_P(Modes, GiveTheSameBitsForEveryBatchSizeOrderAndPass) {
  Library library = Library::open("cpu", GetParam());
  for (const Mode mode : {Mode::kEager, Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
    for (const auto order : {device::UpdateOrder::kUpdateThenReplay, device::UpdateOrder::kReplayThenUpdate}) {
      MethodOptions options;
      options.mode = mode;
      options.update_order = order;
      options.dynamic = GetParam() == 2 ? Dynamic::kAutomatic : Dynamic::kAlways;
      options.retrace_every = 5;
      MethodCounters counters;
      EXPECT_EQ(run_block(library, options, &counters), expected()) << name_of(mode);
      if (mode != Mode::kFull && mode != Mode::kPiecewise) continue;
      EXPECT_EQ(counters.replays, 12) << counters.to_text();
      // 4 static, the rest symbolic, 1 for itself; lengths and positions make no keys.
      EXPECT_EQ(counters.captures, GetParam() == 2 ? 10 : 9);
      EXPECT_EQ(counters.traces, GetParam() == 2 ? 3 : 2);
    }
  }
}

TEST_P(Modes, GiveTheSameBitsWithEveryOptionOfMemory) {
  Library library = Library::open("cpu", GetParam());
  for (int bits = 0; bits < 8; ++bits) {
    MethodOptions options;
    options.dynamic = Dynamic::kAlways;
    options.compile.clone_input = (bits & 1) == 0;
    options.compile.reuse_graph_pool_in_same_fx = (bits & 2) == 0;
    options.compile.clone_output = (bits & 4) != 0;
    options.compile.force_recapture = bits == 5;
    options.compile.capture_limit = bits == 6 ? 3 : 64;
    EXPECT_EQ(run_block(library, options, nullptr), expected()) << bits;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Modes, ::testing::Values(1, 2, 5));

TEST(DiscreteDevice, GivesTheSameBitsAndHostCodeTouchesNoDeviceMemory) {
  ops::Registry registry = ops::make_catalogue();
  kernels::cpu::register_cpu_kernels(registry);
  Library library(device::cpu::create_cpu_device({.threads = 2, .discrete = true}), std::move(registry));
  Library plain = Library::open("cpu", 2);
  for (const Mode mode : {Mode::kEager, Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
    MethodOptions options;
    options.mode = mode;
    EXPECT_EQ(run_block(library, options, nullptr), run_block(plain, options, nullptr)) << name_of(mode);
  }
}

TEST(Memory, ReturnsWhenMethodsAreGone) {
  Library library = Library::open("cpu", 1);
  MethodOptions options;
  options.compile.capture_limit = 4;
  run_block(library, options, nullptr);
  const size_t before = library.device().memory_info().allocated_bytes;
  for (const bool reuse : {true, false}) {
    options.compile.reuse_graph_pool_in_same_fx = reuse;
    for (int round = 0; round < 3; ++round) run_block(library, options, nullptr);
  }
  library.synchronize();
  EXPECT_EQ(library.device().memory_info().allocated_bytes, before);
}

TEST(Memory, StaysFlatWhileEveryCallMissesTheCaptures) {
  Library library = Library::open("cpu", 1);
  MethodOptions options;
  options.compile.reuse_graph_pool_in_same_fx = false;
  options.compile.capture_limit = 1;
  options.dynamic = Dynamic::kAlways;
  auto method =
      library.compile([](Context& context, Tensor x) { return ops::silu(context, ops::mul(context, x, x)); }, options);
  const auto call = [&](int64_t rows) {
    method(random_tensor(library, {rows, 64}));
    library.synchronize();
  };
  for (int64_t rows = 2; rows < 6; ++rows) call(rows);
  const size_t before = library.device().memory_info().allocated_bytes;
  for (int round = 0; round < 20; ++round) call(2 + round % 4);
  call(5);
  EXPECT_EQ(library.device().memory_info().allocated_bytes, before);
  EXPECT_EQ(method.captured_graphs(), 1);
}

}  // namespace
}  // namespace reprise
