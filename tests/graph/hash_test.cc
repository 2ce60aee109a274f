#include "graph/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "graph/random_graph.h"
#include "graph/test_operators.h"
#include "graph/text_parser.h"
#include "graph/text_writer.h"

namespace reprise::graph {
namespace {

constexpr std::string_view kHashedText =
    "graph small {\n"
    "  symbol s0 tokens [1, 32]\n"
    "  input %x : float32[s0, 8]\n"
    "  input %y : float32[s0, 8]\n"
    "  parameter %w0 \"first\" : float32[4]\n"
    "  list %n : int[s0]\n"
    "  %a = pair_add(%x, %y, none) : float32[s0, 8]  # m.cc:1\n"
    "  scale_in_place(%a) {factor = 2.0}\n"
    "  return %a\n"
    "}\n";

std::string hashed_with(std::string_view part, std::string_view replacement) {
  std::string text(kHashedText);
  for (size_t place = text.find(part); place != std::string::npos;
       place = text.find(part, place + replacement.size())) {
    text.replace(place, part.size(), replacement);
  }
  EXPECT_NE(text, kHashedText) << part;
  return text;
}

TEST(StructuralHash, NamesIdsAndSourceLinesDoNotMatter) {
  const ops::Registry registry = make_test_operators();
  const uint64_t hash = structural_hash(parse(kHashedText, registry));
  for (const auto& [part, replacement] : std::vector<std::pair<std::string, std::string>>{
           {"%a", "%other"}, {"%w0", "%weight"}, {"small", "large"}, {"# m.cc:1", "# n.cc:2"}}) {
    EXPECT_EQ(structural_hash(parse(hashed_with(part, replacement), registry)), hash) << part;
  }
  Graph graph = parse(kHashedText, registry);
  const NodeId extra =
      graph.insert_before(graph.order()[0], registry.get("scale_in_place"), {{graph.inputs()[0]}, {}, {1.0}, ""});
  EXPECT_NE(structural_hash(graph), hash);
  graph.erase_node(extra);
  EXPECT_EQ(structural_hash(graph), hash);
}

TEST(StructuralHash, EverythingThatIsComputedMatters) {
  const ops::Registry registry = make_test_operators();
  std::set<uint64_t> hashes = {structural_hash(parse(kHashedText, registry))};
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"[1, 32]", "[1, 33]"},
      {"tokens", "rows"},
      {"s0, 8", "2*s0, 8"},
      {"s0, 8]", "s0, 4, 2]"},
      {"float32[s0", "bfloat16[s0"},
      {"float32[4]", "float32[4]@packed"},
      {"float32[4]", "float32[4]{2}"},
      {"\"first\"", "\"second\""},
      {"int[s0]", "int[4]"},
      {"(%x, %y, none)", "(%y, %x, none)"},
      {"(%x, %y, none)", "(%x, %y, %x)"},
      {"factor = 2.0", "factor = 2.5"},
      {"  scale_in_place(%a) {factor = 2.0}\n", ""},
      {"return %a", "return %x"},
      {"return %a", "return %a, %a"},
  };
  for (const auto& [part, replacement] : changes) {
    EXPECT_TRUE(hashes.insert(structural_hash(parse(hashed_with(part, replacement), registry))).second) << replacement;
  }
}

TEST(StructuralHash, RandomGraphsDiffer) {
  const ops::Registry registry = make_test_operators();
  std::set<uint64_t> hashes;
  std::set<std::string> texts;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph graph = random_graph(registry, seed, 20);
    hashes.insert(structural_hash(graph));
    texts.insert(to_text(graph));
  }
  EXPECT_EQ(hashes.size(), texts.size());
}

}  // namespace
}  // namespace reprise::graph
