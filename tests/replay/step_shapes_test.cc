// The same numbers whatever the model's head shape, the page size, the batch's mix and the instruction set.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "base/error.h"
#include "harness/step_harness.h"
#include "harness/step_runs.h"
#include "kernels/cpu/instruction_set.h"
#include "load/synthesize.h"

namespace reprise::replay {
namespace {

struct HeadShape {
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
};

/// A random model of this shape in a directory that goes away with it.
class SyntheticModel {
 public:
  explicit SyntheticModel(const HeadShape& shape)
      : directory_(std::filesystem::path(testing::TempDir()) /
                   fmt::format("reprise_shape_{}_{}_{}_{}", ::getpid(), shape.heads, shape.kv_heads, shape.head_dim)) {
    std::filesystem::create_directories(directory_);
    const std::filesystem::path config = directory_ / "shape.json";
    std::ofstream(config) << fmt::format(
        R"({{"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "torch_dtype": "float32",
            "vocab_size": 72, "hidden_size": 40, "intermediate_size": 56, "num_hidden_layers": 2,
            "num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {}, "max_position_embeddings": 1024,
            "rope_theta": 10000.0, "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "eos_token_id": 2}})",
        shape.heads, shape.kv_heads, shape.head_dim);
    load::synthesize_checkpoint(config.string(), directory_ / "model");
  }
  ~SyntheticModel() { std::filesystem::remove_all(directory_); }
  SyntheticModel(const SyntheticModel&) = delete;
  SyntheticModel& operator=(const SyntheticModel&) = delete;
  std::filesystem::path path() const { return directory_ / "model"; }

 private:
  std::filesystem::path directory_;
};

StepHarness::Options shape_options(const SyntheticModel& model, Mode mode, DType dtype, int threads,
                                   int32_t page_size) {
  StepHarness::Options options;
  options.model = model.path();
  options.mode = mode;
  options.dtype = dtype;
  options.threads = threads;
  options.page_size = page_size;
  options.pages_per_sequence = (530 + page_size - 1) / page_size;
  options.max_running = 5;
  options.buckets = {1, 2, 4};
  options.max_prefill_tokens = 600;
  return options;
}

/// Lengths on both sides of every cut of the keys, alone and in batches of unequal lengths.
Rows run_across_cuts(StepHarness::Options options) {
  StepHarness harness(std::move(options));
  std::mt19937 random(7);
  Rows rows;
  const auto append = [&](Rows more) {
    for (std::vector<float>& row : more) rows.push_back(std::move(row));
  };
  const std::vector<size_t> lengths = {254, 510, 1, 129, 31};
  for (int32_t sequence = 0; sequence < 5; ++sequence) {
    append(harness.feed(sequence, random_tokens(random, lengths[static_cast<size_t>(sequence)], 72)));
  }
  for (int step = 0; step < 2; ++step) {
    append(harness.decode({0, 1, 2}, random_tokens(random, 3, 72)));
    append(harness.decode({1}, random_tokens(random, 1, 72)));
    append(harness.decode({0, 3, 4, 1, 2}, random_tokens(random, 5, 72)));
  }
  return rows;
}

void expect_finite_rows(const Rows& rows) {
  for (const std::vector<float>& row : rows) {
    for (const float value : row) ASSERT_TRUE(std::isfinite(value));
  }
}

}  // namespace

class HeadShapes : public ::testing::TestWithParam<HeadShape> {};

TEST_P(HeadShapes, GiveTheSameBitsInEveryModeOnAnyThreadsAndPages) {
  const SyntheticModel model(GetParam());
  for (const auto& [dtype, int8_kv] :
       {std::pair(DType::kF32, false), std::pair(DType::kBF16, false), std::pair(DType::kBF16, true)}) {
    const auto options = [&, the_type = dtype, the_int8 = int8_kv](Mode mode, int threads, int32_t page_size) {
      StepHarness::Options result = shape_options(model, mode, the_type, threads, page_size);
      result.int8_kv = the_int8;
      return result;
    };
    const Rows expected = run_across_cuts(options(Mode::kEager, 1, 16));
    expect_finite_rows(expected);
    const std::vector<std::tuple<Mode, int, int32_t>> runs = {{Mode::kFull, 1, 1},
                                                              {Mode::kFull, 2, 7},
                                                              {Mode::kFull, 5, 256},
                                                              {Mode::kForceEager, 2, 1},
                                                              {Mode::kAotEager, 5, 7}};
    for (const auto& [mode, threads, page_size] : runs) {
      EXPECT_EQ(run_across_cuts(options(mode, threads, page_size)), expected)
          << name_of(dtype) << (int8_kv ? ", int8 cache, " : " ") << name_of(mode) << ", " << threads
          << " threads, pages of " << page_size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Qwen3, HeadShapes,
                         ::testing::Values(HeadShape{4, 2, 32}, HeadShape{3, 3, 64}, HeadShape{8, 1, 80},
                                           HeadShape{6, 2, 96}, HeadShape{4, 1, 128}, HeadShape{2, 1, 256},
                                           HeadShape{1, 1, 10}),
                         [](const auto& tested) {
                           return fmt::format("{}HeadsOn{}Of{}", tested.param.heads, tested.param.kv_heads,
                                              tested.param.head_dim);
                         });

TEST(GraphRunner, RowsOfAMixedStepHaveTheBitsThatEachSequenceHasAlone) {
  const SyntheticModel model({4, 2, 32});
  for (const Mode mode : {Mode::kEager, Mode::kAotEager, Mode::kForceEager, Mode::kFull}) {
    for (const int threads : {1, 2, 5}) {
      std::mt19937 random(17);
      StepHarness mixed(shape_options(model, mode, DType::kBF16, threads, 16));
      StepHarness alone(shape_options(model, Mode::kEager, DType::kBF16, 1, 7));
      // New tokens of each sequence by step; 0: not in the step. Prefill, decode, chunks, and a few tokens verified.
      const std::vector<std::vector<size_t>> steps = {{20, 0, 3, 0, 0}, {1, 250, 1, 0, 5}, {1, 8, 1, 300, 1},
                                                      {9, 1, 0, 1, 10}, {1, 1, 1, 1, 1},   {2, 1, 16, 17, 1}};
      for (const std::vector<size_t>& step : steps) {
        std::vector<std::pair<int32_t, std::vector<int32_t>>> batch;
        for (int32_t sequence = 4; sequence >= 0; --sequence) {
          const size_t tokens = step[static_cast<size_t>(sequence)];
          if (tokens > 0) batch.emplace_back(sequence, random_tokens(random, tokens, 72));
        }
        Rows expected;
        for (const auto& [sequence, tokens] : batch) expected.push_back(alone.feed(sequence, tokens).back());
        expect_finite_rows(expected);
        EXPECT_EQ(mixed.step(batch), expected) << name_of(mode) << " with " << threads << " threads";
      }
      for (int32_t sequence = 0; sequence < 5; ++sequence) {
        EXPECT_EQ(mixed.kv_contents(sequence), alone.kv_contents(sequence)) << name_of(mode);
      }
    }
  }
}

TEST(GraphRunner, B80EachInstructionSetGivesItsOwnBitsInEveryModeAndAllAreClose) {
  const SyntheticModel model({6, 2, 80});
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Rows first;
    for (const kernels::cpu::InstructionSet set : kernels::cpu::available_instruction_sets()) {
      const auto run = [&](Mode mode, int threads, int32_t page_size) {
        StepHarness::Options options = shape_options(model, mode, dtype, threads, page_size);
        options.prepare = [set](ops::Registry& registry) { kernels::cpu::register_cpu_kernels(registry, set); };
        return run_across_cuts(std::move(options));
      };
      const Rows expected = run(Mode::kEager, 1, 16);
      expect_finite_rows(expected);
      EXPECT_EQ(run(Mode::kFull, 2, 7), expected) << kernels::cpu::name_of(set) << " " << name_of(dtype);
      EXPECT_EQ(run(Mode::kForceEager, 5, 256), expected) << kernels::cpu::name_of(set) << " " << name_of(dtype);
      if (first.empty()) first = expected;
      double squares = 0;
      double differences = 0;
      for (size_t row = 0; row < expected.size(); ++row) {
        for (size_t i = 0; i < expected[row].size(); ++i) {
          const double difference = static_cast<double>(expected[row][i]) - first[row][i];
          squares += static_cast<double>(first[row][i]) * first[row][i];
          differences += difference * difference;
        }
      }
      EXPECT_LT(std::sqrt(differences / squares), dtype == DType::kF32 ? 1e-5 : 1e-2) << kernels::cpu::name_of(set);
    }
  }
}

/// What a step says of a batch that goes beyond its block tables.
TEST(GraphRunner, MoreKeysThanTheTablesHoldAreRefusedInEveryModeAndTheNextStepRuns) {
  const SyntheticModel model({4, 2, 32});
  const auto orders = {device::UpdateOrder::kUpdateThenReplay, device::UpdateOrder::kReplayThenUpdate};
  for (const Mode mode : {Mode::kEager, Mode::kAotEager, Mode::kForceEager, Mode::kFull}) {
    for (const device::UpdateOrder order : orders) {
      StepHarness::Options options = shape_options(model, mode, DType::kF32, 2, 16);
      options.pages_per_sequence = 2;
      options.update_order = order;
      StepHarness harness(options);
      harness.feed(0, {1, 2, 3});
      const Rows expected = harness.decode({0}, {4});
      for (const bool prefill : {false, true}) {
        StepBatch batch;
        batch.token_ids = {4};
        batch.positions = {3};
        batch.slots = {0};
        batch.query_lengths = {1};
        batch.kv_lengths = {33};
        batch.block_tables = {1, 1};
        batch.max_pages = 2;
        batch.all_logits = prefill;
        try {
          harness.runner().run(batch);
          ADD_FAILURE() << "accepted in mode " << name_of(mode);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
          EXPECT_NE(std::string(error.what()).find("33"), std::string::npos) << error.what();
        }
      }
      harness.drop(0);
      harness.feed(0, {1, 2, 3});
      EXPECT_EQ(harness.decode({0}, {4}), expected) << name_of(mode);
    }
  }
}

}  // namespace reprise::replay
