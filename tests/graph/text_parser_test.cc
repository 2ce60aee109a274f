#include "graph/text_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "graph/hash.h"
#include "graph/random_graph.h"
#include "graph/test_operators.h"
#include "graph/text_writer.h"
#include "graph/verify.h"

namespace reprise::graph {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kParsedText =
    "graph small {\n"
    "  symbol s0 tokens [1, 32]\n"
    "  input %x : float32[s0, 2, 4]\n"
    "  input %strided : bfloat16[2*s0+1, 4]@n16k2{64,1}\n"
    "  parameter %w0 \"model.norm.weight\" : float32[4]\n"
    "  list %lengths : int[s0]\n"
    "  %sum = pair_add(%x, %x, none) : float32[s0, 2, 4]  # qwen3.cc:42\n"
    "  %flat = flatten(%sum) : float32[s0, 8]\n"
    "  %left, %right = pair_split(%flat) : float32[s0, 4], float32[s0, 4]\n"
    "  scale_in_place(%flat) {factor = -0.25}\n"
    "  %t = tagged(%x, %lengths) {count = 1, flag = true, dtype = int8, shape = [-1, s0], text = \"a\\n\", factor = "
    "0.5} : "
    "int8[s0, 2, 4]\n"
    "  return %left, %t\n"
    "}\n";

/// The small graph with one part replaced.
std::string parsed_with(std::string_view part, std::string_view replacement) {
  std::string text(kParsedText);
  const size_t place = text.find(part);
  EXPECT_NE(place, std::string::npos) << part;
  return text.replace(place, part.size(), replacement);
}

class TextParserTest : public ::testing::Test {
 protected:
  std::string fault(std::string_view text) const {
    try {
      parse(text, registry_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << error.what();
      return error.what();
    }
    return "no error";
  }
  std::string fault_with(std::string_view part, std::string_view replacement) const {
    return fault(parsed_with(part, replacement));
  }

  ops::Registry registry_ = make_test_operators();
};

TEST_F(TextParserTest, PrintsWhatItRead) {
  const Graph graph = parse(kParsedText, registry_);
  EXPECT_EQ(to_text(graph), kParsedText);
  EXPECT_EQ(graph.name(), "small");
  EXPECT_EQ(graph.node(graph.order()[0]).source, "qwen3.cc:42");
  EXPECT_FALSE(graph.value(graph.parameters()[0]).tensor.defined());
}

TEST_F(TextParserTest, ReadsOperatorsOfTheCatalogue) {
  constexpr std::string_view text =
      "graph norm {\n"
      "  symbol s0 tokens [1, 32]\n"
      "  input %x : bfloat16[s0, 64]\n"
      "  parameter %w \"model.norm.weight\" : float32[64]\n"
      "  %y = rms_norm(%x, %w) {epsilon = 1e-06} : bfloat16[s0, 64]\n"
      "  return %y\n"
      "}\n";
  EXPECT_EQ(to_text(parse(text, ops::make_catalogue())), text);
}

TEST_F(TextParserTest, ReadsTheSeedsOfTheFuzzTarget) {
  const ops::Registry catalogue = ops::make_catalogue();
  size_t seeds = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/fuzz/graph_text")) {
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::string printed = to_text(parse(text, catalogue));
    EXPECT_EQ(to_text(parse(printed, catalogue)), printed);
    if (entry.path().filename() == "layer") {
      EXPECT_EQ(printed, text);
    }
    ++seeds;
  }
  EXPECT_GE(seeds, 3u);
}

TEST_F(TextParserTest, DefaultsBlanksAndCommentsMayBeLeftToTheReader) {
  const std::string text =
      "\r\n# a file of a user\ngraph  small{ # opens\n\n symbol s0 tokens[1,32]\t\n"
      "input %x:float32[1*s0+0,2,4]@nd{8,4,1}\n# nothing\nlist %lengths : int[s0]\n"
      "%t=tagged(%x,%lengths){shape=[],dtype=int8}:int8[s0,2,4]\r\nscale_in_place(%x)#  m.cc:1 \nreturn\n}\n\n# end";
  EXPECT_EQ(
      to_text(parse(text, registry_)),
      "graph small {\n"
      "  symbol s0 tokens [1, 32]\n"
      "  input %x : float32[s0, 2, 4]\n"
      "  list %lengths : int[s0]\n"
      "  %t = tagged(%x, %lengths) {count = 1, flag = false, dtype = int8, shape = [], text = \"none\", factor = 0.5} "
      ": int8[s0, 2, 4]\n"
      "  scale_in_place(%x) {factor = 1.5}  # m.cc:1\n"
      "  return\n"
      "}\n");
}

TEST_F(TextParserTest, RandomGraphsReadBackEqual) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph graph = random_graph(registry_, seed, 3 + static_cast<int>(seed % 40));
    ASSERT_THAT(faults(graph), IsEmpty()) << to_text(graph);
    const std::string text = to_text(graph);
    const Graph again = parse(text, registry_);
    ASSERT_EQ(to_text(again), text) << "seed " << seed;
    ASSERT_EQ(structural_hash(again), structural_hash(graph)) << text;
  }
}

TEST_F(TextParserTest, TextsCutAnywhereAreRefused) {
  for (size_t size = 0; size + 2 < kParsedText.size(); ++size) {
    EXPECT_THAT(fault(kParsedText.substr(0, size)), HasSubstr("graph text: ")) << size;
  }
}

TEST_F(TextParserTest, WhatIsUnknownIsNamedWithItsPlace) {
  EXPECT_EQ(fault_with("flatten(", "flaten("),
            "graph text: 8:11: there is no operator 'flaten' (did you mean 'flatten'?)");
  EXPECT_EQ(fault_with("pair_add(%x, %x", "pair_add(%x, %y"), "graph text: 7:23: %y is not made above");
  EXPECT_EQ(fault_with("return %left", "return %lost"), "graph text: 12:10: %lost is not made above");
  EXPECT_EQ(fault_with("factor = -0.25", "fctor = -0.25"),
            "graph text: 10:26: scale_in_place has no attribute 'fctor'");
  EXPECT_EQ(fault_with("int8[s0", "int7[s0"), "graph text: 11:116: expected a dtype");
  EXPECT_EQ(fault_with("input %x", "imput %x"), "graph text: 3:3: there is no operator 'imput'");
}

TEST_F(TextParserTest, ArgumentsMustFitTheSchema) {
  EXPECT_EQ(fault_with("(%x, %x, none)", "(%x, %x)"), "graph text: 7:27: pair_add takes 3 arguments, 2 are given");
  EXPECT_EQ(fault_with("(%x, %x, none)", "(%x, %x, none, %x)"), "graph text: 7:33: pair_add takes 3 arguments");
  EXPECT_EQ(fault_with("(%x, %x, none)", "(%x, none, %x)"),
            "graph text: 7:3: qwen3.cc:42: pair_add argument 'b' is absent, but not optional");
  EXPECT_EQ(fault_with("(%x, %lengths)", "(%lengths, %x)"),
            "graph text: 11:3: tagged argument 'x' is the host list %lengths, expected a tensor");
  EXPECT_EQ(fault_with("%left, %right =", "%left ="), "graph text: 9:3: pair_split has 2 results, 1 are named");
  EXPECT_EQ(fault_with("dtype = int8, ", ""), "graph text: 11:100: tagged needs the attribute 'dtype'");
  EXPECT_EQ(fault_with("count = 1", "count = 1, count = 2"), "graph text: 11:41: attribute 'count' is given twice");
  EXPECT_EQ(fault_with("count = 1", "count = 9223372036854775808"),
            "graph text: 11:38: expected an integer from -9223372036854775808 to 9223372036854775807");
  EXPECT_EQ(fault_with("flag = true", "flag = 1"), "graph text: 11:48: expected true or false");
  EXPECT_EQ(fault_with("[-1, s0]", "[-1, s9]"),
            "graph text: 11:3: tagged attribute 'shape' has the value [-1, s9], with a symbol that the graph does not "
            "have");
}

TEST_F(TextParserTest, MetadataMustBeTrueAndPossible) {
  EXPECT_EQ(fault_with("float32[s0, 8]", "float32[s0, 9]"),
            "graph text: 8:27: %flat is written as float32[s0, 9], but flatten gives float32[s0, 8]");
  EXPECT_EQ(fault_with("float32[4]\n", "float32[s0]\n"),
            "graph text: 5:17: parameter 'model.norm.weight' has the symbolic shape [s0]");
  EXPECT_EQ(fault_with("float32[s0, 2, 4]", "float32[s1, 2, 4]"),
            "graph text: 3:14: tensor 'x' axis 0 has the size s1, but the graph has no symbol s1");
  EXPECT_EQ(fault_with("float32[s0, 2, 4]", "float32[2, s0, 4]"),
            "graph text: 3:14: only the first axis of a tensor may be symbolic");
  EXPECT_EQ(fault_with("float32[s0, 2, 4]", "float32[1, 1099511627776, 1099511627776, 0]"),
            "graph text: 3:14: a tensor of an impossible size");
  EXPECT_EQ(fault_with("float32[s0, 2, 4]", "float32[1,2,3,4,5,6]"),
            "graph text: 3:32: a tensor has at most 5 dimensions");
  EXPECT_THAT(fault_with("float32[s0, 2, 4]", "float32[s0-2, 2, 4]"), HasSubstr("negative for a tokens"));
  EXPECT_THAT(fault_with("float32[s0, 2, 4]", "float32[1048576*s0, 1048576]"), HasSubstr("too many elements"));
  EXPECT_EQ(fault_with("@n16k2", "@sixteen_letters_"),
            "graph text: 4:40: the name of a format has at most 15 characters");
  EXPECT_EQ(fault_with("{64,1}", "{64}"), "graph text: 4:48: expected ','");
  EXPECT_EQ(fault_with("{64,1}", "{-1,1}"), "graph text: 4:46: expected an integer from 0 to 1099511627776");
}

TEST_F(TextParserTest, NamesAndSymbolsAreDeclaredOnce) {
  EXPECT_EQ(fault_with("%flat =", "%sum ="), "graph text: 8:3: there is a %sum already");
  EXPECT_EQ(fault_with("%right =", "%left ="), "graph text: 9:10: %left is made twice");
  EXPECT_EQ(fault_with("symbol s0", "symbol s1"), "graph text: 2:10: expected 's0': symbols are numbered in order");
  EXPECT_EQ(fault_with("[1, 32]", "[33, 32]"), "graph text: 2:3: symbol 'tokens' cannot have the range [33, 32]");
  EXPECT_EQ(fault_with("  list", "  parameter %w1 \"model.norm.weight\" : int8[1]\n  list"),
            "graph text: 6:17: parameter 'model.norm.weight' is bound to another tensor already");
  EXPECT_EQ(fault_with("return %left, %t\n}", "return %left, %t\n}\ngraph"),
            "graph text: 14:1: expected nothing behind the graph");
  EXPECT_EQ(fault_with("return %left", "return %lengths"),
            "graph text: 12:3: graph small: value 3 cannot be returned, it is no tensor of the graph");
}

TEST_F(TextParserTest, StringsAreRefusedWhereTheyBreak) {
  EXPECT_EQ(fault_with("\"a\\n\"", "\"a\\q\""),
            "graph text: 11:96: expected one of \\\" \\\\ \\n \\t \\xHH in a string");
  EXPECT_THAT(fault_with("\"a\\n\"", "\"a"), HasSubstr("expected '\"' at the end of a string"));
  EXPECT_THAT(fault_with("\"a\\n\"", "\"a\\x0"), HasSubstr("in a string"));
}

TEST_F(TextParserTest, FaultsOfTheWholeGraphAreRefused) {
  EXPECT_THAT(fault_with("scale_in_place(%flat)", "copy_into(%flat, %sum)\n  scale_in_place(%flat)"),
              HasSubstr("copy_into mutates its argument 'target', which may share memory with 'source'"));
}

}  // namespace
}  // namespace reprise::graph
