#include "graph/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/test_operators.h"

namespace reprise::graph {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VerifyTest : public ::testing::Test {
 protected:
  VerifyTest() : graph_("test") {
    const Dim tokens = Dim::symbolic(graph_.add_symbol("tokens", 1, 8));
    x_ = graph_.add_input("x", TensorMeta(DType::kF32, Shape{tokens, 4}));
    first_ = graph_.add_node(registry_.get("pair_add"), {{x_, x_, kAbsent}, {}, {}, "m.cc:1"});
    view_ = graph_.add_node(registry_.get("flatten"), {{graph_.output_of(first_)}, {}, {}, "m.cc:2"});
    second_ = graph_.add_node(registry_.get("pair_add"), {{graph_.output_of(view_), x_, kAbsent}, {}, {}, "m.cc:3"});
    graph_.set_outputs({graph_.output_of(second_)});
    EXPECT_THAT(faults(graph_), IsEmpty());
  }

  Value& output(NodeId node) { return graph_.mutable_value(graph_.output_of(node)); }

  ops::Registry registry_ = make_test_operators();
  Graph graph_;
  ValueId x_ = kAbsent;
  NodeId first_ = kNoNode;
  NodeId view_ = kNoNode;
  NodeId second_ = kNoNode;
};

TEST_F(VerifyTest, UseBeforeDefinitionIsAFault) {
  graph_.mutable_node(first_).inputs[1] = graph_.output_of(second_);
  EXPECT_THAT(faults(graph_), ElementsAre("m.cc:1: pair_add uses %pair_add_1 before it is made"));
}

TEST_F(VerifyTest, MetadataMustBeWhatTheShapeFunctionSays) {
  output(second_).meta.dtype = DType::kBF16;
  EXPECT_THAT(faults(graph_), ElementsAre("m.cc:3: pair_add: %pair_add_1 is bfloat16[s0, 4], but the shape function "
                                          "says float32[s0, 4]"));
}

TEST_F(VerifyTest, ShapeFunctionsErrorsAreFaults) {
  graph_.mutable_value(x_).meta = TensorMeta(DType::kF32, Shape{3});
  EXPECT_THAT(faults(graph_), Contains(HasSubstr("m.cc:3: pair_add: argument 'b' has shape [3], expected [s0, 4]")));
}

TEST_F(VerifyTest, ArityAndAttributesFollowTheSchema) {
  graph_.mutable_node(first_).inputs.pop_back();
  graph_.mutable_node(view_).attributes.resize(1);
  EXPECT_THAT(faults(graph_), ElementsAre("m.cc:1: pair_add has 2 tensor arguments, expected 3",
                                          "m.cc:2: flatten has 1 attributes, expected 0"));
}

TEST_F(VerifyTest, IdsMustExist) {
  graph_.mutable_node(first_).inputs[0] = 1000;
  graph_.mutable_node(first_).inputs[1] = -7;
  EXPECT_THAT(faults(graph_), ElementsAre(HasSubstr("argument 'a' is value 1000, which the graph does not have")));
}

TEST_F(VerifyTest, ResultsBelongToTheirNode) {
  graph_.mutable_node(first_).outputs[0] = graph_.output_of(second_);
  const auto found = faults(graph_);
  EXPECT_THAT(found, Contains("%pair_add_1 is not what m.cc:1: pair_add makes"));
  EXPECT_THAT(found, Contains("m.cc:2: flatten uses %pair_add before it is made"));
}

TEST_F(VerifyTest, NamesAndLabelsOccurOnce) {
  output(second_).name = "x";
  graph_.add_parameter("a", TensorMeta(DType::kF32, Shape{4}));
  const ValueId other = graph_.add_parameter("b", TensorMeta(DType::kF32, Shape{4}));
  graph_.mutable_value(other).label = "a";
  EXPECT_THAT(faults(graph_), ElementsAre("two values are called %x", "two parameters are called 'a'"));
}

TEST_F(VerifyTest, SymbolsMustExistAndKeepSizesPositive) {
  graph_.mutable_value(x_).meta.shape[0] = Dim::symbolic(static_cast<Symbol>(3));
  EXPECT_THAT(faults(graph_), Contains("%x axis 0 has the size s3, but the graph has no symbol s3"));
  graph_.mutable_value(x_).meta.shape[0] = Dim::symbolic(Symbol::kTokens, 1, -2);
  EXPECT_THAT(faults(graph_), Contains(HasSubstr("s0-2, which is negative for a tokens within its range")));
}

TEST_F(VerifyTest, MutatedMemoryIsNotReadByTheSameNode) {
  graph_.add_node(registry_.get("copy_into"), {{graph_.output_of(view_), graph_.output_of(second_)}, {}, {}, "m.cc:4"});
  EXPECT_THAT(faults(graph_), IsEmpty());
  graph_.add_node(registry_.get("copy_into"), {{graph_.output_of(view_), graph_.output_of(first_)}, {}, {}, "m.cc:5"});
  EXPECT_THAT(faults(graph_), ElementsAre("m.cc:5: copy_into mutates its argument 'target', which may share memory "
                                          "with 'source'"));
}

TEST_F(VerifyTest, AliasRootsAndViewsAreChecked) {
  output(view_).root = graph_.output_of(view_);
  EXPECT_THAT(faults(graph_), ElementsAre("%flatten has a wrong alias root"));
}

TEST_F(VerifyTest, AViewStaysWithinWhatItLooksAt) {
  ops::Traits view;
  view.view = true;
  registry_.add(ops::OpDef(
      "grow(Tensor x) -> Tensor y", view,
      [](const ops::OpCall& call, std::span<TensorMeta> outputs) {
        outputs[0] = TensorMeta(call.inputs[0].dtype(), Shape{call.inputs[0].shape()[0], 5});
      },
      nullptr));
  graph_.add_node(registry_.get("grow"), {{x_}, {}, {}, ""});
  EXPECT_THAT(faults(graph_), ElementsAre("grow: the view float32[s0, 5] reaches beyond float32[s0, 4]"));
}

TEST_F(VerifyTest, BoundTensorsHaveTheParametersMetadata) {
  float memory[4] = {};
  const ValueId weight = graph_.add_parameter("w", Tensor::borrowed(TensorMeta(DType::kF32, Shape{4}), memory));
  graph_.mutable_value(weight).meta.shape[0] = Dim(2);
  EXPECT_THAT(faults(graph_), ElementsAre("parameter %w0 is float32[2], but is bound to float32[4]"));
}

TEST_F(VerifyTest, VerifyThrowsWithTheFaults) {
  output(second_).meta.dtype = DType::kI8;
  output(view_).root = x_;
  try {
    verify(graph_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_THAT(error.what(), HasSubstr("graph test is not sound: %flatten has a wrong alias root; m.cc:3"));
  }
}

}  // namespace
}  // namespace reprise::graph
