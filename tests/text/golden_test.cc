#include <gtest/gtest.h>

#include "text/detokenizer.h"
#include "text/text_test_support.h"

namespace reprise::text {
namespace {

void expect_vectors(const Tokenizer& tokenizer, const std::vector<Vector>& vectors) {
  for (const Vector& vector : vectors) {
    ASSERT_EQ(tokenizer.encode(vector.text), vector.ids) << vector.text;
    ASSERT_EQ(tokenizer.decode(vector.ids), vector.decoded);
    Detokenizer detokenizer(tokenizer);
    std::string joined;
    for (const int32_t id : vector.ids) joined += detokenizer.push(id);
    ASSERT_EQ(joined + detokenizer.finish(), vector.decoded);
  }
}

TEST(Golden, Qwen3IdsAndTextsEqualTheReference) {
  REPRISE_REQUIRE_QWEN3_TOKENIZER();
  const std::vector<Vector> vectors = read_vectors("qwen3_tokenizer.jsonl");
  ASSERT_EQ(vectors.size(), 440u);
  expect_vectors(qwen3_tokenizer(), vectors);
}

TEST(Golden, BundledModelIdsAndTextsEqualTheIndependentJudge) {
  const std::vector<Vector> vectors = read_vectors("mini_tokenizer.jsonl");
  ASSERT_GT(vectors.size(), 300u);
  expect_vectors(mini_tokenizer(), vectors);
}

}  // namespace
}  // namespace reprise::text
