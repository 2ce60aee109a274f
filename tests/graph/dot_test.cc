#include "graph/dot.h"

#include <gtest/gtest.h>

#include "graph/statistics.h"
#include "graph/test_operators.h"
#include "graph/text_parser.h"

namespace reprise::graph {
namespace {

constexpr std::string_view kText =
    "graph small {\n"
    "  symbol s0 tokens [1, 32]\n"
    "  input %x : float32[s0, 2, 4]\n"
    "  parameter %w0 \"the \\\"weight\\\"\" : float32[1, 2, 4]\n"
    "  parameter %w1 \"unused\" : float32[4]\n"
    "  list %n : int[s0]\n"
    "  %f = flatten(%w0) : float32[1, 8]\n"
    "  copy_into(%f, %x)\n"
    "  %t = tagged(%x, %n) {dtype = int8, shape = [], text = \"a\\\"b\"} : int8[s0, 2, 4]  # m.cc:7\n"
    "  scale_in_place(%t) {factor = 1.0}\n"
    "  scale_in_place(%t) {factor = 2.0}\n"
    "  return %t\n"
    "}\n";

TEST(Dot, DrawsNodesValuesAndEffects) {
  const ops::Registry registry = make_test_operators();
  EXPECT_EQ(to_dot(parse(kText, registry)),
            R"(digraph "small" {
  node [shape=box, fontname="monospace"];
  edge [fontname="monospace", fontsize=10];
  v0 [shape=ellipse, label="%x\nfloat32[s0, 2, 4]"];
  v3 [shape=ellipse, label="%n\nint[s0]"];
  v1 [shape=note, label="the \"weight\"\nfloat32[1, 2, 4]"];
  n0 [label="flatten", style=dashed];
  v1 -> n0 [label="x: %w0\nfloat32[1, 2, 4]"];
  n1 [label="copy_into"];
  n0 -> n1 [label="target: %f\nfloat32[1, 8]", color=red, dir=both];
  v0 -> n1 [label="source: %x\nfloat32[s0, 2, 4]"];
  n2 [label="tagged\ncount = 1\nflag = false\ndtype = int8\nshape = []\ntext = \"a\\\"b\"\nfactor = 0.5\nm.cc:7"];
  v0 -> n2 [label="x: %x\nfloat32[s0, 2, 4]"];
  v3 -> n2 [label="lengths: %n\nint[s0]"];
  n3 [label="scale_in_place\nfactor = 1.0"];
  n2 -> n3 [label="x: %t\nint8[s0, 2, 4]", color=red, dir=both];
  n4 [label="scale_in_place\nfactor = 2.0"];
  n2 -> n4 [label="x: %t\nint8[s0, 2, 4]", color=red, dir=both];
  result [shape=ellipse, label="return"];
  n2 -> result [label="%t\nint8[s0, 2, 4]"];
}
)");
}

TEST(Statistics, CountsNodesByOperator) {
  const ops::Registry registry = make_test_operators();
  EXPECT_EQ(statistics(parse(kText, registry)).to_string(),
            "5 nodes (1 views, 3 mutating), 1 inputs, 2 parameters, 1 host lists\n"
            "      2 scale_in_place\n"
            "      1 copy_into\n"
            "      1 flatten\n"
            "      1 tagged\n");
}

}  // namespace
}  // namespace reprise::graph
