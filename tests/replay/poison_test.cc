// Poison mode bites: kernels with the faults that padding brings are caught, and the right ones are not.
#include <gtest/gtest.h>

#include <cmath>

#include "device/cpu/cpu_stream.h"
#include "harness/step_harness.h"

namespace reprise::replay {
namespace {

using device::cpu::CpuStream;
using device::cpu::Kernel;

StepHarness::Options poison_options(std::function<void(ops::Registry&)> prepare = {}) {
  StepHarness::Options options;
  options.model = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models/dense";
  options.dtype = DType::kF32;
  options.prepare = std::move(prepare);
  // A broken kernel of a plain operator does not run where a fused one takes its place.
  options.passes.pattern_fusion_pass = options.prepare == nullptr;
  return options;
}

/// The short sequences decoded twice in the bucket of four: rows of logits, and every page at the end.
struct PoisonOutcome {
  Rows logits;
  std::vector<std::byte> pages;
  friend bool operator==(const PoisonOutcome&, const PoisonOutcome&) = default;
};

/// Three short sequences, and one that holds the very last slot of the pool.
void prefill(StepHarness& harness) {
  for (int32_t sequence = 0; sequence < 3; ++sequence) harness.feed(sequence, {5, 6, 7 + sequence});
  harness.feed(8, std::vector<int32_t>(20, 4));
}

PoisonOutcome run_poisoned(StepHarness::Options options) {
  StepHarness harness(std::move(options));
  prefill(harness);
  PoisonOutcome outcome;
  for (int step = 0; step < 2; ++step) {
    for (std::vector<float>& row : harness.decode({0, 1, 2}, {9, 10, 11})) outcome.logits.push_back(std::move(row));
  }
  outcome.pages = harness.all_pages();
  EXPECT_EQ(harness.runner().counters().steps(StepKind::kDecode, StepReason::kReplayed), 2);
  return outcome;
}

bool all_finite(const Rows& rows) {
  for (const std::vector<float>& row : rows) {
    for (const float value : row) {
      if (!std::isfinite(value)) return false;
    }
  }
  return true;
}

/// Arguments of the broken row kernels below: float32 rows without gaps.
struct RowArguments {
  const float* x;
  const float* weight;
  float* y;
  int64_t rows;
  int64_t columns;
  double epsilon;
};

void normalise_row(const RowArguments& a, int64_t row, double extra) {
  const float* x = a.x + row * a.columns;
  double squares = extra;
  for (int64_t i = 0; i < a.columns; ++i) squares += static_cast<double>(x[i]) * x[i];
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(a.columns) + a.epsilon);
  for (int64_t i = 0; i < a.columns; ++i) a.y[row * a.columns + i] = static_cast<float>(x[i] * scale * a.weight[i]);
}

/// Reads the row behind each one, too, though it only adds nothing of it.
void norm_reads_one_row_too_many(const void* arguments, int64_t first, int64_t last) {
  const auto& a = *static_cast<const RowArguments*>(arguments);
  for (int64_t row = first; row < last; ++row) {
    const int64_t next = std::min(row + 1, a.rows - 1);
    normalise_row(a, row, 0.0 * a.x[next * a.columns]);
  }
}

/// Scales by the largest value of the whole batch, padding included, as a shared quantisation scale would.
void norm_takes_batch_maximum(const void* arguments, int64_t first, int64_t last) {
  const auto& a = *static_cast<const RowArguments*>(arguments);
  float maximum = 0;
  for (int64_t i = 0; i < a.rows * a.columns; ++i) {
    if (!(std::abs(a.x[i]) <= maximum)) maximum = std::abs(a.x[i]);
  }
  for (int64_t row = first; row < last; ++row) normalise_row(a, row, 1e-3 * maximum);
}

constexpr Kernel kTooMany = {"rms_norm.one_row_too_many", norm_reads_one_row_too_many};
constexpr Kernel kBatchMaximum = {"rms_norm.batch_maximum", norm_takes_batch_maximum};

template <const Kernel& kKernel>
void launch_norm(const ops::OpCall& call) {
  const Tensor& x = call.inputs[0];
  const int64_t columns = x.size(x.rank() - 1);
  const int64_t rows = x.shape().elements() / columns;
  const RowArguments arguments = {
      x.data_as<float>(),     call.inputs[1].data_as<float>(), call.outputs[0].data_as<float>(), rows, columns,
      call.float_attribute(0)};
  dynamic_cast<CpuStream&>(*call.stream).launch(kKernel, rows, arguments);
}

/// Stores like store_kv, but takes the slot of a padding row (a scratch slot) for -1 and counts that from the end.
struct StoreArguments {
  const float* k;
  const float* v;
  const int32_t* slots;
  float* k_cache;
  float* v_cache;
  int64_t entry;
  int64_t slot_count;
};

void store_writes_slot_minus_one(const void* arguments, int64_t first, int64_t last) {
  const auto& a = *static_cast<const StoreArguments*>(arguments);
  for (int64_t row = first; row < last; ++row) {
    const int64_t slot = a.slots[row] < 16 ? a.slot_count - 1 : a.slots[row];
    std::copy_n(a.k + row * a.entry, a.entry, a.k_cache + slot * a.entry);
    std::copy_n(a.v + row * a.entry, a.entry, a.v_cache + slot * a.entry);
  }
}

constexpr Kernel kStoreMinusOne = {"store_kv.slot_minus_one", store_writes_slot_minus_one};

void launch_store(const ops::OpCall& call) {
  const Tensor& k = call.inputs[0];
  const Tensor& cache = call.inputs[3];
  const StoreArguments arguments = {k.data_as<float>(),
                                    call.inputs[1].data_as<float>(),
                                    call.inputs[2].data_as<int32_t>(),
                                    call.inputs[3].data_as<float>(),
                                    call.inputs[4].data_as<float>(),
                                    k.size(1) * k.size(2),
                                    cache.size(0) * cache.size(1)};
  dynamic_cast<CpuStream&>(*call.stream).launch(kStoreMinusOne, k.size(0), arguments);
}

std::function<void(ops::Registry&)> replace(const char* op, void (*launch)(const ops::OpCall&)) {
  return [op, launch](ops::Registry& registry) {
    ops::OpKernel kernel;
    kernel.run = launch;
    registry.get(op).set_kernel("cpu", kernel);
  };
}

}  // namespace

TEST(PoisonMode, LetsRightKernelsPass) {
  const PoisonOutcome poisoned = run_poisoned(poison_options());
  EXPECT_TRUE(all_finite(poisoned.logits));
  StepHarness::Options eager = poison_options();
  eager.mode = Mode::kEager;
  StepHarness harness(eager);
  prefill(harness);
  Rows rows = harness.decode({0, 1, 2}, {9, 10, 11});
  for (std::vector<float>& row : harness.decode({0, 1, 2}, {9, 10, 11})) rows.push_back(std::move(row));
  EXPECT_EQ(poisoned.logits, rows);
  EXPECT_EQ(poisoned.pages, harness.all_pages());
}

TEST(PoisonMode, B39FiveRowsInABucketOfEightDoNotDependOnWhatThePaddingHolds) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    std::vector<Rows> results;
    for (const bool poison : {true, false}) {
      StepHarness::Options options = poison_options();
      options.dtype = dtype;
      options.poison = poison;
      StepHarness harness(options);
      for (int32_t i = 0; i < 8; ++i) harness.feed(i, std::vector<int32_t>(static_cast<size_t>(1 + i), 30 + i));
      // Without poison the padding rows hold what eight real rows left there.
      harness.decode({0, 1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7, 8});
      results.push_back(harness.decode({0, 1, 2, 3, 4}, {9, 9, 9, 9, 9}));
      EXPECT_TRUE(all_finite(results.back()));
      EXPECT_EQ(harness.runner().last_reason(), StepReason::kReplayed);
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

TEST(PoisonMode, CatchesAKernelThatReadsOneRowTooMany) {
  EXPECT_FALSE(all_finite(run_poisoned(poison_options(replace("rms_norm", launch_norm<kTooMany>))).logits));
  StepHarness::Options unpoisoned = poison_options(replace("rms_norm", launch_norm<kTooMany>));
  unpoisoned.poison = false;
  EXPECT_TRUE(all_finite(run_poisoned(unpoisoned).logits)) << "without poison the fault does not show";
}

TEST(PoisonMode, CatchesAMaximumOverPadding) {
  EXPECT_FALSE(all_finite(run_poisoned(poison_options(replace("rms_norm", launch_norm<kBatchMaximum>))).logits));
}

TEST(PoisonMode, B37CatchesAWriteToSlotMinusOne) {
  EXPECT_NE(run_poisoned(poison_options(replace("store_kv", launch_store))).pages,
            run_poisoned(poison_options()).pages);
}

}  // namespace reprise::replay
