#include "engine/prompt_logits.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/fake_device.h"
#include "engine/fake_model.h"

namespace reprise::engine {
namespace {

constexpr int32_t kPromptVocabulary = 31;

class PromptLogits : public testing::Test {
 protected:
  PromptLogits() : pool(device, FakeModel::layout(), options()), model(pool, kPromptVocabulary) {}
  static KvPoolOptions options() {
    KvPoolOptions result;
    result.page_size = 4;
    result.tokens = 40;
    result.scratch_slots = 3;
    result.poison = true;
    result.shuffle_seed = 2;
    return result;
  }
  std::vector<float> run(std::span<const int32_t> tokens, int32_t chunk, bool decode = false) {
    const StepFunction function = [this](const replay::StepBatch& batch) {
      EXPECT_EQ(batch.is_decode(), !batch.all_logits);
      return model.run(batch);
    };
    return prompt_logits(pool, function, kPromptVocabulary, tokens, {chunk, decode});
  }

  FakeDevice device;
  KvPool pool;
  FakeModel model;
  std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
};

TEST_F(PromptLogits, AreThoseOfEveryPositionHoweverTheyAreCut) {
  const std::vector<float> whole = run(ids, 100);
  EXPECT_EQ(model.steps, 1);
  ASSERT_EQ(whole.size(), ids.size() * kPromptVocabulary);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto next = static_cast<size_t>(FakeModel::hashed_next(std::span(ids).first(i + 1), kPromptVocabulary));
    EXPECT_EQ(whole[i * kPromptVocabulary + next], 3.0f) << i;
  }
  for (const int32_t chunk : {1, 3, 5, 11}) EXPECT_EQ(run(ids, chunk), whole) << chunk;
  model.steps = 0;
  EXPECT_EQ(run(ids, 0, true), whole);
  EXPECT_EQ(model.steps, 11);
  EXPECT_EQ(pool.free_pages(), pool.usable_pages());
  EXPECT_EQ(pool.free_sequence_slots(), 1);
}

TEST_F(PromptLogits, RefuseWhatIsOutOfRangeAndFreeWhatTheyTook) {
  EXPECT_THROW(run(ids, 0), Error);
  EXPECT_THROW(run(std::vector<int32_t>{1, kPromptVocabulary}, 4), Error);
  EXPECT_THROW(run(std::vector<int32_t>{-1}, 4), Error);
  EXPECT_THROW(run(std::vector<int32_t>(41, 1), 4), Error);
  model.before_step = [](const replay::StepBatch&) { throw Error(ErrorCode::kOutOfMemory, "full"); };
  EXPECT_THROW(run(ids, 4), Error);
  EXPECT_EQ(pool.free_pages(), pool.usable_pages());
  EXPECT_EQ(pool.free_sequence_slots(), 1);
}

}  // namespace
}  // namespace reprise::engine
