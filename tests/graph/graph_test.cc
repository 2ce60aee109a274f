#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/alias.h"
#include "graph/test_operators.h"
#include "graph/text_writer.h"
#include "graph/verify.h"

namespace reprise::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The message of the Error that a call throws; "" when it throws none.
template <typename Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class GraphTest : public ::testing::Test {
 protected:
  GraphTest() : graph_("test") {
    const Dim tokens = Dim::symbolic(graph_.add_symbol("tokens", 1, 8));
    graph_.add_symbol("sequences", 1, 8);
    meta_ = TensorMeta(DType::kF32, Shape{tokens, 4, 6});
    x_ = graph_.add_input("x", meta_);
  }

  const ops::OpDef& op(std::string_view name) const { return registry_.get(name); }
  NodeId add(ValueId a, ValueId b, std::string source = "") {
    return graph_.add_node(op("pair_add"), {{a, b, kAbsent}, {}, {}, std::move(source)});
  }
  NodeId scale(ValueId x) { return graph_.add_node(op("scale_in_place"), {{x}, {}, {2.0}, ""}); }
  NodeId flatten(ValueId x) { return graph_.add_node(op("flatten"), {{x}, {}, {}, ""}); }

  ops::Registry registry_ = make_test_operators();
  ops::Registry catalogue_ = ops::make_catalogue();
  Graph graph_;
  TensorMeta meta_;
  ValueId x_ = kAbsent;
};

TEST_F(GraphTest, PrintsOneLineForEachValueOfTheOutsideAndEachNode) {
  const ValueId weight = graph_.add_parameter("model.norm.weight", TensorMeta(DType::kF32, Shape{6}));
  const ValueId lengths = graph_.add_host_list("kv_lengths", Dim::symbolic(Symbol::kSequences));
  const NodeId norm = graph_.add_node(catalogue_.get("rms_norm"), {{x_, weight}, {}, {1e-6}, "qwen3.cc:42"});
  const NodeId tagged =
      graph_.add_node(op("tagged"), {{graph_.output_of(norm)},
                                     {lengths},
                                     {int64_t{-3}, true, DType::kBF16, Shape{-1, Dim::symbolic(Symbol::kTokens, 2, 1)},
                                      std::string("a \"b\"\n\x01"), 1.0},
                                     ""});
  scale(graph_.output_of(tagged));
  graph_.set_outputs({graph_.output_of(tagged), x_});
  verify(graph_);
  EXPECT_EQ(
      to_text(graph_),
      "graph test {\n"
      "  symbol s0 tokens [1, 8]\n"
      "  symbol s1 sequences [1, 8]\n"
      "  input %x : float32[s0, 4, 6]\n"
      "  parameter %w0 \"model.norm.weight\" : float32[6]\n"
      "  list %kv_lengths : int[s1]\n"
      "  %rms_norm = rms_norm(%x, %w0) {epsilon = 1e-06} : float32[s0, 4, 6]  # qwen3.cc:42\n"
      "  %tagged = tagged(%rms_norm, %kv_lengths) {count = -3, flag = true, dtype = bfloat16, shape = [-1, 2*s0+1], "
      "text = \"a \\\"b\\\"\\n\\x01\", factor = 1.0} : bfloat16[s0, 4, 6]\n"
      "  scale_in_place(%tagged) {factor = 2.0}\n"
      "  return %tagged, %x\n"
      "}\n");
}

TEST_F(GraphTest, NamesAreMadeUniqueAndClean) {
  const NodeId first = add(x_, x_);
  const NodeId second = add(x_, x_);
  EXPECT_EQ(graph_.value(graph_.output_of(first)).name, "pair_add");
  EXPECT_EQ(graph_.value(graph_.output_of(second)).name, "pair_add_1");
  EXPECT_EQ(graph_.value(graph_.add_input("a b%", meta_)).name, "a_b_");
  EXPECT_EQ(graph_.value(graph_.add_input("x", meta_)).name, "x_1");
  const NodeId split = graph_.add_node(op("pair_split"), {{x_}, {}, {}, ""});
  EXPECT_EQ(graph_.value(graph_.output_of(split, 1)).name, "pair_split_right");
  EXPECT_THAT(faults(graph_), IsEmpty());
}

TEST_F(GraphTest, ErrorsOfShapeFunctionsNameTheSourceLine) {
  const ValueId other = graph_.add_input("other", TensorMeta(DType::kF32, Shape{3}));
  EXPECT_EQ(message_of([&] { add(x_, other, "qwen3.cc:7"); }),
            "qwen3.cc:7: pair_add: argument 'b' has shape [3], expected [s0, 4, 6]");
  const ValueId symbolic = graph_.add_input("symbolic", TensorMeta(DType::kF32, Shape{Dim::symbolic(Symbol::kTokens)}));
  EXPECT_THAT(message_of([&] { graph_.add_node(op("pair_split"), {{symbolic}, {}, {}, "qwen3.cc:8"}); }),
              HasSubstr("qwen3.cc:8: pair_split"));
  EXPECT_THAT(graph_.order(), IsEmpty());
}

TEST_F(GraphTest, ArgumentsAreCheckedAgainstTheSchema) {
  const ValueId list = graph_.add_host_list("lengths", 4);
  const auto make = [&](std::string_view name, NodeArguments arguments) {
    return message_of([&] { graph_.add_node(op(name), std::move(arguments)); });
  };
  EXPECT_EQ(make("pair_add", {{x_}, {}, {}, ""}), "pair_add has 1 tensor arguments, expected 3");
  EXPECT_EQ(make("pair_add", {{x_, kAbsent, x_}, {}, {}, ""}), "pair_add argument 'b' is absent, but not optional");
  EXPECT_EQ(make("pair_add", {{x_, list, x_}, {}, {}, ""}),
            "pair_add argument 'b' is the host list %lengths, expected a tensor");
  EXPECT_EQ(make("pair_add", {{x_, 99, x_}, {}, {}, ""}),
            "pair_add argument 'b' is value 99, which the graph does not have");
  EXPECT_EQ(make("scale_in_place", {{x_}, {}, {int64_t{2}}, "a.cc:1"}),
            "a.cc:1: scale_in_place attribute 'factor' is an int, expected a float");
  EXPECT_EQ(make("scale_in_place", {{x_}, {}, {}, ""}), "scale_in_place has 0 attributes, expected 1");
  const ops::Attribute huge = Shape{int64_t{1} << 30, int64_t{1} << 30};
  EXPECT_THAT(make("tagged", {{x_}, {list}, {int64_t{1}, false, DType::kF32, huge, std::string(), 0.5}, ""}),
              HasSubstr("too large"));
}

TEST_F(GraphTest, TheSameTensorIsOneParameter) {
  float memory[16] = {};
  const Tensor weight = Tensor::borrowed(TensorMeta(DType::kF32, Shape{16}), memory);
  const Tensor half = Tensor::borrowed(TensorMeta(DType::kF32, Shape{8}), memory + 8);
  const ValueId first = graph_.add_parameter("embed.weight", weight);
  EXPECT_EQ(graph_.add_parameter("lm_head.weight", weight), first);
  const ValueId second = graph_.add_parameter("part.weight", half);
  EXPECT_NE(second, first);
  EXPECT_EQ(alias_root(graph_, second), first);
  EXPECT_THROW(graph_.add_parameter("part.weight", Tensor::borrowed(half.meta(), memory)), Error);
  const Tensor unbound(TensorMeta(DType::kF32, Shape{4}), nullptr);
  const ValueId third = graph_.add_parameter("planned.weight", unbound);
  EXPECT_EQ(graph_.add_parameter("planned.weight", unbound), third);
  EXPECT_EQ(alias_root(graph_, third), third);
  EXPECT_THAT(graph_.parameters(), ElementsAre(first, second, third));
  EXPECT_THAT(faults(graph_), IsEmpty());
}

TEST_F(GraphTest, ParametersThatAThirdOneOverlapsShareOneRoot) {
  float memory[16] = {};
  const auto tensor = [&](int64_t begin, int64_t size) {
    return Tensor::borrowed(TensorMeta(DType::kF32, Shape{size}), memory + begin);
  };
  const ValueId upper = graph_.add_parameter("k", tensor(8, 8));
  const ValueId lower = graph_.add_parameter("q", tensor(0, 8));
  EXPECT_NE(alias_root(graph_, upper), alias_root(graph_, lower));
  const ValueId both = graph_.add_parameter("qk", tensor(0, 16));
  for (const ValueId id : {upper, lower, both}) EXPECT_EQ(alias_root(graph_, id), upper);
}

TEST_F(GraphTest, ReplacesUsesAndErasesWhatIsUnused) {
  const NodeId first = add(x_, x_);
  const NodeId second = add(graph_.output_of(first), x_);
  graph_.set_outputs({graph_.output_of(second)});
  EXPECT_THAT(graph_.users(x_), ElementsAre(first, second));
  EXPECT_THAT(all_users(graph_)[x_], ElementsAre(first, second));
  EXPECT_EQ(message_of([&] { graph_.erase_node(first); }),
            "pair_add cannot be erased: pair_add uses its output %pair_add");
  EXPECT_THAT(message_of([&] { graph_.erase_node(second); }), HasSubstr("the graph uses its output %pair_add_1"));

  const NodeId fused = graph_.insert_before(first, op("pair_add"), {{x_, x_, x_}, {}, {}, "fused"});
  graph_.replace_uses(graph_.output_of(second), graph_.output_of(fused));
  const NodeId doomed[] = {first, second};
  graph_.erase_nodes(doomed);
  EXPECT_THAT(graph_.order(), ElementsAre(fused));
  EXPECT_THAT(graph_.outputs(), ElementsAre(graph_.output_of(fused)));
  EXPECT_FALSE(graph_.has_node(first));
  verify(graph_);
  EXPECT_THROW(graph_.node(first), Error);
}

TEST_F(GraphTest, WhatMakesTheReplacementKeepsItsArguments) {
  const NodeId sum = add(x_, x_);
  const NodeId user = add(graph_.output_of(sum), x_);
  const ValueId old_value = graph_.output_of(sum);
  const NodeId wrapper = graph_.insert_before(user, op("pair_add"), {{old_value, old_value, kAbsent}, {}, {}, ""});
  graph_.replace_uses(old_value, graph_.output_of(wrapper));
  EXPECT_THAT(graph_.node(wrapper).inputs, ElementsAre(old_value, old_value, kAbsent));
  EXPECT_THAT(graph_.node(user).inputs, ElementsAre(graph_.output_of(wrapper), x_, kAbsent));
  verify(graph_);
}

TEST_F(GraphTest, ViewsShareTheRootOfWhatTheyLookAt) {
  const NodeId sum = add(x_, x_);
  const NodeId view = flatten(graph_.output_of(sum));
  EXPECT_EQ(alias_root(graph_, graph_.output_of(view)), graph_.output_of(sum));
  graph_.replace_uses(graph_.output_of(sum), x_);
  EXPECT_EQ(alias_root(graph_, graph_.output_of(view)), x_);
  verify(graph_);
}

TEST_F(GraphTest, NodesMoveOnlyWhereNothingDependsOnTheOrder) {
  const NodeId sum = add(x_, x_);
  const NodeId view = flatten(x_);
  const NodeId write = scale(graph_.output_of(view));
  const NodeId late = add(x_, graph_.output_of(sum));
  EXPECT_EQ(message_of([&] { graph_.move_before(late, sum); }),
            "pair_add cannot be moved: pair_add uses a result of pair_add");
  EXPECT_EQ(message_of([&] { graph_.move_before(late, view); }),
            "pair_add cannot be moved: scale_in_place writes %x, which pair_add touches");
  EXPECT_EQ(message_of([&] { graph_.move_before(write, sum); }),
            "scale_in_place cannot be moved: scale_in_place writes %x, which pair_add touches");
  EXPECT_EQ(message_of([&] { graph_.move_before(view, late); }),
            "flatten cannot be moved: scale_in_place uses a result of flatten");
  graph_.move_before(view, sum);
  EXPECT_THAT(graph_.order(), ElementsAre(view, sum, write, late));
  verify(graph_);
}

TEST_F(GraphTest, AValueCannotStandForOneThatWasOverwrittenMeanwhile) {
  const NodeId copy = add(x_, x_);
  const NodeId write = scale(x_);
  const NodeId use = add(graph_.output_of(copy), graph_.output_of(copy));
  EXPECT_THAT(message_of([&] { graph_.replace_uses(graph_.output_of(copy), x_); }),
              HasSubstr("scale_in_place overwrites %x in between"));
  EXPECT_THAT(graph_.node(use).inputs, ElementsAre(graph_.output_of(copy), graph_.output_of(copy), kAbsent));
  graph_.erase_node(write);
  graph_.replace_uses(graph_.output_of(copy), x_);
  EXPECT_THAT(graph_.node(use).inputs, ElementsAre(x_, x_, kAbsent));
}

TEST_F(GraphTest, WritesMoveToAFreshValueButNotToOneThatOthersUse) {
  const NodeId old_node = add(x_, x_);
  const NodeId fresh = add(x_, x_);
  const NodeId shared = add(x_, x_);
  add(graph_.output_of(shared), x_);
  const NodeId write = scale(graph_.output_of(old_node));
  EXPECT_THAT(message_of([&] { graph_.replace_uses(graph_.output_of(old_node), graph_.output_of(shared)); }),
              HasSubstr("would overwrite %pair_add_2, which others use"));
  graph_.replace_uses(graph_.output_of(old_node), graph_.output_of(fresh));
  EXPECT_THAT(graph_.node(write).inputs, ElementsAre(graph_.output_of(fresh)));
}

TEST_F(GraphTest, CloneIsIndependent) {
  const NodeId sum = add(x_, x_);
  const Graph copy = graph_.clone();
  graph_.erase_node(sum);
  EXPECT_TRUE(copy.has_node(sum));
  EXPECT_THAT(graph_.order(), IsEmpty());
  EXPECT_NE(to_text(copy), to_text(graph_));
}

}  // namespace
}  // namespace reprise::graph
