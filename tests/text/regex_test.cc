#include "text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/regex_dialect.h"

namespace reprise::text {
namespace {

std::vector<std::string> matches(const Regex& regex, std::string_view text) {
  RegexScratch scratch;
  std::vector<RegexPiece> pieces;
  regex.split(text, scratch, pieces);
  std::vector<std::string> out;
  for (const RegexPiece& piece : pieces) {
    if (piece.is_match) out.emplace_back(text.substr(piece.begin, piece.end - piece.begin));
  }
  return out;
}
std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  return matches(Regex::compile(pattern, "pattern"), text);
}
using Matches = std::vector<std::string>;

TEST(Regex, ReadsThePublishedExpressions) {
  for (
      std::string_view pattern :
      {// Qwen 2 and 3
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       // GPT-2
       R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
       // Llama 3
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       // o200k
       R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|\s+)",
       // DeepSeek V3
       R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s+)",
       "[一-龥぀-ゟ゠-ヿ]+"}) {
    EXPECT_NO_THROW(Regex::compile(pattern, "pattern")) << pattern;
  }
}

TEST(Regex, WhiteSpaceIsUnicodesInsideAndOutsideOfClasses) {
  EXPECT_EQ(matches(R"(\s)", "a\u0085b\u00A0c\u2028d\u3000e").size(), 4u);
  // Neither the Mongolian vowel separator nor zero-width characters are white space.
  EXPECT_EQ(matches(R"(\s)", "\u180E\u200B\uFEFF"), Matches{});
  EXPECT_EQ(matches(R"(\S+)", "a\u180E b"), (Matches{"a\u180E", "b"}));
  EXPECT_EQ(matches(R"([^\s]+)", "a\u180E\u2003b"), (Matches{"a\u180E", "b"}));
  EXPECT_EQ(matches(R"([\Sx]+)", "a\U0001F642 b"), (Matches{"a\U0001F642", "b"}));
}

TEST(Regex, ClassesFollowUnicode) {
  EXPECT_EQ(matches(R"(\p{L}+)", "añ漢1"), (Matches{"añ漢"}));
  EXPECT_EQ(matches(R"(\p{N})", "½Ⅷ٣"), (Matches{"½", "Ⅷ", "٣"}));
  EXPECT_EQ(matches(R"((?i:'LL))", "'ll'Ll"), (Matches{"'ll", "'Ll"}));
  EXPECT_EQ(matches(R"(\u00e9|\x41)", "éAa"), (Matches{"é", "A"}));
}

TEST(Regex, LinesAreRubys) {
  EXPECT_EQ(matches("^a", "a\na"), (Matches{"a", "a"}));
  EXPECT_EQ(matches("a$", "a\na"), (Matches{"a", "a"}));
  EXPECT_EQ(matches(".+", "ab\r\nc"), (Matches{"ab\r", "c"}));
}

TEST(Regex, EmptyMatchesAdvanceByOneCharacter) {
  EXPECT_EQ(matches("x*", "éxa"), (Matches{"", "x", ""}));
  EXPECT_EQ(matches("x*", ""), (Matches{""}));
}

TEST(Regex, ALiteralMatchesItsTextOnly) {
  EXPECT_EQ(matches(Regex::literal(".*", "pattern"), "a.*b.."), (Matches{".*"}));
}

TEST(Regex, WhatTheTwoDialectsReadDifferentlyIsRefusedByName) {
  for (std::string_view pattern :
       {R"(\w)",          R"(\b)",    R"(\h)",      R"(\A)",  R"(\1)", R"(\R)", "[[:alpha:]]",
        "[a-z&&[aeiou]]", "(?m:a)",   "(?<name>a)", "a(?i)b", "a{,3}", "a{2}+", "(*UTF)",
        R"(\p{Alpha})",   R"(\p{l})", R"(\x80)",    "[a",     "[]a]",  "a\\",   R"(\pL)"}) {
    try {
      Regex::compile(pattern, "the.path");
      FAIL() << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_THAT(error.what(), testing::HasSubstr("the.path")) << pattern;
    }
  }
}

TEST(Regex, EndlessBacktrackingIsAnErrorAndNoHang) {
  const Regex regex = Regex::compile("(?:a+)+[bc]", "the.path");
  RegexScratch scratch;
  std::vector<RegexPiece> pieces;
  try {
    regex.split(std::string(64, 'a'), scratch, pieces);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_THAT(error.what(), testing::HasSubstr("the.path"));
  }
  // The scratch is as good as new.
  pieces.clear();
  regex.split("aab", scratch, pieces);
  EXPECT_EQ(pieces.size(), 1u);
}

}  // namespace
}  // namespace reprise::text
