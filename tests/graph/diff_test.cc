#include "graph/diff.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "graph/test_operators.h"
#include "graph/text_parser.h"

namespace reprise::graph {
namespace {

TEST(Diff, ShowsWhatARewriteChanged) {
  const ops::Registry registry = make_test_operators();
  const Graph before = parse(
      "graph small {\n"
      "  symbol s0 tokens [1, 32]\n"
      "  input %x : float32[s0, 8]\n"
      "  %a = pair_add(%x, %x, none) : float32[s0, 8]\n"
      "  %b = pair_add(%a, %x, none) : float32[s0, 8]\n"
      "  %c = pair_add(%b, %x, none) : float32[s0, 8]\n"
      "  return %c\n"
      "}\n",
      registry);
  EXPECT_EQ(diff(before, before.clone()), "");
  Graph after = before.clone();
  const ValueId x = after.inputs()[0];
  const NodeId a = after.order()[0];
  const NodeId b = after.order()[1];
  const NodeId fused = after.insert_before(b, registry.get("pair_add"), {{x, x, x}, {}, {}, ""});
  after.replace_uses(after.output_of(b), after.output_of(fused));
  after.erase_node(b);
  after.erase_node(a);
  EXPECT_EQ(diff(before, after),
            "  ...\n"
            "    symbol s0 tokens [1, 32]\n"
            "    input %x : float32[s0, 8]\n"
            "-   %a = pair_add(%x, %x, none) : float32[s0, 8]\n"
            "-   %b = pair_add(%a, %x, none) : float32[s0, 8]\n"
            "-   %c = pair_add(%b, %x, none) : float32[s0, 8]\n"
            "+   %pair_add = pair_add(%x, %x, %x) : float32[s0, 8]\n"
            "+   %c = pair_add(%pair_add, %x, none) : float32[s0, 8]\n"
            "    return %c\n"
            "  }\n");
}

TEST(Diff, MovedLinesAreRemovedAndAdded) {
  EXPECT_EQ(diff_lines("a\nb\nc\nd\n", "a\nc\nd\nb\n"), "  a\n- b\n  c\n  d\n+ b\n");
  EXPECT_EQ(diff_lines("", "a\n"), "+ a\n");
  EXPECT_EQ(diff_lines("a\n", ""), "- a\n");
}

TEST(Diff, LinesThatAreLeftOutStandAsDots) {
  EXPECT_EQ(diff_lines("1\n2\n3\n4\n5\n6\n7\nx\n8\n9\n10\n11\n", "1\n2\n3\n4\n5\n6\n7\ny\n8\n9\n10\n11\n"),
            "  ...\n  6\n  7\n- x\n+ y\n  8\n  9\n  ...\n");
}

/// The side of a diff with `mark`, given that nothing is left out.
std::string side(const std::string& diff, char mark) {
  std::string text;
  for (size_t start = 0; start < diff.size();) {
    const size_t end = diff.find('\n', start);
    if (diff[start] == ' ' || diff[start] == mark) text += diff.substr(start + 2, end - start - 1);
    start = end + 1;
  }
  return text;
}

TEST(Diff, BothTextsAreWithinIt) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    // Few different lines, short texts and a change in every neighbourhood: nothing is left out, lines repeat.
    std::string before;
    std::string after;
    for (int i = 0; i < 20; ++i) {
      const std::string line = std::to_string(random() % 8) + "\n";
      if (random() % 3 != 0) before += line;
      if (random() % 3 != 0) after += line;
      if (i % 3 == 0) after += "new" + std::to_string(i) + "\n";
    }
    const std::string text = diff_lines(before, after);
    if (text.find("...") != std::string::npos) continue;
    ASSERT_EQ(side(text, '-'), before) << text;
    ASSERT_EQ(side(text, '+'), after) << text;
  }
}

}  // namespace
}  // namespace reprise::graph
