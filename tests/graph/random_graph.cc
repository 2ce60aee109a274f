#include "graph/random_graph.h"

#include <limits>
#include <random>

namespace reprise::graph {
namespace {

/// Draws nodes for tensors of one group of shapes, [tokens, 2, 4] and its flat view, so that most choices fit.
class Maker {
 public:
  Maker(const ops::Registry& registry, uint32_t seed) : registry_(registry), random_(seed), graph_("random") {
    const Dim tokens = Dim::symbolic(graph_.add_symbol("tokens", 1, 8 + draw(5)), 1 + draw(3), draw(2));
    lists_.push_back(graph_.add_host_list("lengths", Dim::symbolic(graph_.add_symbol("sequences", 0, 4))));
    lists_.push_back(graph_.add_host_list("starts", draw(9)));
    const TensorMeta meta(DType::kF32, Shape{tokens, 2, 4});
    for (const char* name : {"x", "odd name", ""}) tensors_.push_back(graph_.add_input(name, meta));
    TensorMeta strided(DType::kI8, Shape{3, 4}, Format("n16k2"));
    strided.strides[0] = 64;
    graph_.add_parameter("layer \"0\"\n\x7F.weight", strided);
    graph_.add_parameter("cache", TensorMeta(DType::kF32, Shape{}));
  }

  Graph make(int nodes) {
    for (int i = 0; i < nodes; ++i) step();
    std::vector<ValueId> outputs;
    for (int i = draw(4); i > 0; --i) outputs.push_back(tensor());
    graph_.set_outputs(outputs);
    return std::move(graph_);
  }

 private:
  int draw(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }
  ValueId tensor() { return tensors_[static_cast<size_t>(draw(static_cast<int>(tensors_.size())))]; }
  std::string source() { return draw(2) == 0 ? "" : "model.cc:" + std::to_string(draw(500)); }

  void step() {
    const ValueId x = tensor();
    const size_t rank = graph_.value(x).meta.shape.rank();
    switch (draw(6)) {
      case 0:
      case 1: {
        const ValueId other = tensor();
        const bool fits = graph_.value(other).meta == graph_.value(x).meta;
        add("pair_add", {{x, fits ? other : x, draw(2) == 0 ? kAbsent : tensor()}, {}, {}, source()});
        break;
      }
      case 2:
        add("flatten", {{x}, {}, {}, source()});
        break;
      case 3:
        add("scale_in_place", {{x}, {}, {number()}, source()});
        break;
      case 4:
        if (rank == 3) {
          add("tagged", {{x}, {lists_[static_cast<size_t>(draw(2))]}, attributes(), source()});
        } else {
          add("pair_split", {{x}, {}, {}, source()});
        }
        break;
      default: {
        const ValueId other = tensor();
        if (graph_.value(other).root != graph_.value(x).root &&
            graph_.value(other).meta.dtype == graph_.value(x).meta.dtype) {
          add("copy_into", {{x, other}, {}, {}, source()});
        }
      }
    }
  }

  void add(std::string_view op, NodeArguments arguments) {
    const NodeId node = graph_.add_node(registry_.get(op), std::move(arguments));
    for (const ValueId output : graph_.node(node).outputs) {
      const Shape& shape = graph_.value(output).meta.shape;
      if (shape.rank() == 3 || (shape.rank() == 2 && shape.size(1) == 8)) tensors_.push_back(output);
    }
  }

  double number() {
    constexpr double kNumbers[] = {0.0,   -0.0,   1.0,
                                   1e-06, 0.1,    std::numeric_limits<double>::infinity(),
                                   1e300, 5e-324, -std::numeric_limits<double>::infinity(),
                                   3e16,  123456, std::numeric_limits<double>::quiet_NaN()};
    return kNumbers[draw(12)];
  }

  std::vector<ops::Attribute> attributes() {
    constexpr int64_t kIntegers[] = {0, -1, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
    const std::string texts[] = {"", "plain", "\" \\ \n \t \x01 \x7F", std::string("\0#}{\xC3\xA9", 6)};
    const Shape shapes[] = {Shape{}, Shape{-1, 4}, Shape{Dim::symbolic(Symbol::kSequences, -2, 7), 0}};
    std::vector<ops::Attribute> result;
    result.emplace_back(kIntegers[draw(4)]);
    result.emplace_back(draw(2) == 0);
    result.emplace_back(static_cast<DType>(draw(8)));
    result.emplace_back(shapes[draw(3)]);
    result.emplace_back(texts[draw(4)]);
    result.emplace_back(number());
    return result;
  }

  const ops::Registry& registry_;
  std::mt19937 random_;
  Graph graph_;
  std::vector<ValueId> tensors_;
  std::vector<ValueId> lists_;
};

}  // namespace

Graph random_graph(const ops::Registry& registry, uint32_t seed, int nodes) {
  return Maker(registry, seed).make(nodes);
}

}  // namespace reprise::graph
