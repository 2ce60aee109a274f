#include "text/utf8.h"

#include <gtest/gtest.h>

namespace reprise::text {
namespace {

TEST(Utf8, ReplacesEachMaximalSubpart) {
  // The Unicode standard's own example, table 3-8.
  EXPECT_EQ(to_valid_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(to_valid_utf8("\xC0\xAF"), "\uFFFD\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xE2\x82"), "\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x99\x82"), "\U0001F642");
}

TEST(Utf8, ValidityAgreesWithRepair) {
  for (std::string_view text :
       {"", "a", "\x80", "é", "\xED\x9F\xBF", "\xED\xA0\x80", "\xF4\x8F\xBF\xBF", "\xF5", "12345678\xC3"}) {
    EXPECT_EQ(is_valid_utf8(text), to_valid_utf8(text) == text) << text;
  }
}

TEST(Utf8, EveryScalarValueReadsBackAsItWasWritten) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(c, text);
    const Utf8Unit unit = read_utf8(text, 0);
    ASSERT_EQ(unit.kind, Utf8Unit::Kind::kCharacter);
    ASSERT_EQ(unit.code_point, c);
    ASSERT_EQ(unit.length, text.size());
  }
}

TEST(Utf8Stream, AnyTwoCutsGiveTheRepairedText) {
  const std::string text = "a\xF0\x9F\x99\x82\xF0\x9F\x99\xE2\x82\xC3\xA9\x80z\xEF\xBF\xBD\xF0\x9F";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      Utf8Stream stream;
      std::string out;
      stream.push(std::string_view(text).substr(0, first), out);
      EXPECT_TRUE(is_valid_utf8(out));
      stream.push(std::string_view(text).substr(first, second - first), out);
      EXPECT_LE(stream.pending(), 3u);
      stream.push(std::string_view(text).substr(second), out);
      stream.finish(out);
      EXPECT_EQ(out, to_valid_utf8(text));
    }
  }
}

}  // namespace
}  // namespace reprise::text
