#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

namespace reprise::engine {
namespace {

struct Outcome {
  std::string text;
  std::string stop;
  friend bool operator==(const Outcome&, const Outcome&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Outcome& o) { return out << o.text << "|" << o.stop; }
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& parts) {
  StopMatcher matcher(stops);
  Outcome outcome;
  for (const std::string& part : parts) {
    const std::string before = outcome.text;
    if (const auto stop = matcher.push(part, outcome.text)) {
      outcome.stop = stops[*stop];
      return outcome;
    }
    EXPECT_TRUE(outcome.text.starts_with(before));
  }
  matcher.finish(outcome.text);
  return outcome;
}

// Every way to cut the text into parts gives the same outcome.
void expect_outcome(const std::vector<std::string>& stops, const std::string& text, const Outcome& expected) {
  ASSERT_LE(text.size(), 12u);
  for (unsigned cuts = 0; cuts < 1u << (text.size() - 1); ++cuts) {
    std::vector<std::string> parts(1);
    for (size_t i = 0; i < text.size(); ++i) {
      parts.back() += text[i];
      if (cuts >> i & 1) parts.emplace_back();
    }
    ASSERT_EQ(run(stops, parts), expected) << text << " cut " << cuts;
  }
}

TEST(StopMatcher, B60FindsStopStringsHoweverTheTextIsCut) {
  const std::string text = "ABCDEFG";
  expect_outcome({"CDE"}, text, {"AB", "CDE"});
  expect_outcome({"DE"}, text, {"ABC", "DE"});
  expect_outcome({"G"}, text, {"ABCDEF", "G"});
  expect_outcome({"ABC"}, text, {"", "ABC"});
  expect_outcome({"X", "XY", "FGH", "CDX", "EFG"}, text, {"ABCD", "EFG"});
  expect_outcome({"FGH"}, text, {"ABCDEFG", ""});
  expect_outcome({}, text, {"ABCDEFG", ""});
}

TEST(StopMatcher, TheStopThatIsCompleteFirstCountsAndThenTheLongest) {
  expect_outcome({"BCDE", "CD"}, "ABCDEF", {"AB", "CD"});
  expect_outcome({"CD", "BCD"}, "ABCDEF", {"A", "BCD"});
}

TEST(StopMatcher, BeginningsThatOverlapAreNotLost) {
  expect_outcome({"aab"}, "aaaab", {"aa", "aab"});
  expect_outcome({"abac"}, "ababac", {"ab", "abac"});
}

TEST(StopMatcher, HoldsBackWhatMayBeginAStopAndNoMore) {
  StopMatcher matcher({"</end>", "STOP"});
  std::string out;
  EXPECT_FALSE(matcher.push("text <", out));
  EXPECT_EQ(out, "text ");
  EXPECT_FALSE(matcher.push("b> S", out));
  EXPECT_EQ(out, "text <b> ");
  EXPECT_FALSE(matcher.push("TO", out));
  EXPECT_EQ(out, "text <b> ");
  EXPECT_FALSE(matcher.push("RE", out));
  EXPECT_EQ(out, "text <b> STORE");
}

TEST(StopMatcher, KeepsTheStopStringWhenTold) {
  StopMatcher matcher({"CD"}, true);
  std::string out;
  EXPECT_FALSE(matcher.push("ABC", out));
  EXPECT_EQ(out, "AB");
  EXPECT_TRUE(matcher.push("DE", out));
  EXPECT_EQ(out, "ABCD");
}

TEST(StopMatcher, NeverCutsACharacterInTwo) {
  StopMatcher matcher({"\xF0\x9F\x99\x82!"});
  std::string out;
  EXPECT_FALSE(matcher.push("a\xF0\x9F\x99\x82", out));
  EXPECT_EQ(out, "a");
  EXPECT_FALSE(matcher.push("?", out));
  EXPECT_EQ(out, "a\xF0\x9F\x99\x82?");
}

}  // namespace
}  // namespace reprise::engine
