#include "ops/schema.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/registry.h"

namespace reprise::ops {

TEST(Schema, PrintsWhatItParsed) {
  const std::string text =
      "paged_attention(Tensor q, Tensor! k_cache, Tensor? mask, int[]^ kv_lengths, int[] starts, *, float scale, "
      "int window = 4, dtype out = bfloat16, bool causal = true) -> Tensor out, Tensor lse";
  EXPECT_EQ(Schema::parse(text).to_string(), text);
  EXPECT_EQ(Schema::parse("store( Tensor! x )->()").to_string(), "store(Tensor! x) -> ()");
}

TEST(Schema, FaultNamesThePlace) {
  for (const char* text : {"", "f", "f(", "f(Tensor)", "f(Tensor x) ->", "f(int[] a, Tensor x) -> ()",
                           "f(*, nope a) -> ()", "f(Tensor x) -> () more"}) {
    EXPECT_THROW(Schema::parse(text), Error) << text;
  }
  try {
    Schema::parse("f(Tensor x, *, nope a) -> ()");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("an attribute type at column"), std::string::npos) << error.what();
  }
}

TEST(Registry, UnknownNameIsAnsweredWithTheNearest) {
  const Registry registry = make_catalogue();
  try {
    registry.get("rms_nrm");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_STREQ(error.what(), "there is no operator 'rms_nrm' (did you mean 'rms_norm'?)");
  }
}

TEST(Registry, CloneIsIndependent) {
  const Registry registry = make_catalogue();
  Registry copy = registry.clone();
  copy.add(OpDef("mine(Tensor x) -> Tensor y", {}, nullptr, nullptr));
  EXPECT_EQ(registry.find("mine"), nullptr);
  EXPECT_NE(copy.find("mine"), nullptr);
  EXPECT_THROW(copy.add(OpDef("mine(Tensor x) -> Tensor y", {}, nullptr, nullptr)), Error);
}

}  // namespace reprise::ops
