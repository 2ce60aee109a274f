// A backend of the program's own: it is given the traced graph, and returns something that runs it.
#include <cmath>
#include <cstdio>

#include "ops/reference_dispatcher.h"
#include "reprise/reprise.h"

using namespace reprise;

// Runs every operator by the naive reference that defines it: slow, but a judge of kernels, passes and captures. A
// backend that optimises would run compile::PassManager here, or a compiler of its own.
class ReferenceProgram final : public BackendProgram {
 public:
  ReferenceProgram(graph::Graph graph, const ops::Registry& registry)
      : graph_(std::move(graph)), dispatcher_(registry), values_(graph_.value_limit()), lists_(graph_.value_limit()) {}

  std::vector<Tensor> run(const BackendCall& call) override {
    // References compute at once, so what the stream still makes of the inputs must be done.
    call.stream.synchronize();
    for (size_t i = 0; i < call.inputs.size(); ++i) values_[graph_.inputs()[i]] = call.inputs[i];
    for (size_t i = 0; i < call.lists.size(); ++i) lists_[graph_.lists()[i]] = call.lists[i];
    for (const graph::ValueId id : graph_.parameters()) values_[id] = graph_.value(id).tensor;
    for (const graph::NodeId id : graph_.order()) run_node(graph_.node(id), call.symbols);
    std::vector<Tensor> results;
    for (const graph::ValueId id : graph_.outputs()) results.push_back(values_[id]);
    return results;
  }

 private:
  void run_node(const graph::Node& node, std::span<const int64_t> symbols) {
    std::vector<Tensor> inputs;
    for (const graph::ValueId id : node.inputs) inputs.push_back(id == graph::kAbsent ? Tensor() : values_[id]);
    std::vector<ops::HostList> lists;
    for (const graph::ValueId id : node.lists) lists.push_back(lists_[id]);
    // Shapes may hold symbols, such as a number of rows; each call brings their values.
    std::vector<ops::Attribute> attributes = node.attributes;
    for (ops::Attribute& attribute : attributes) {
      if (auto* shape = std::get_if<Shape>(&attribute)) *shape = shape->at(symbols);
    }
    std::vector<Tensor> outputs(node.outputs.size());
    dispatcher_.dispatch(node.op->name(), inputs, lists, attributes, outputs, std::source_location::current());
    for (size_t i = 0; i < outputs.size(); ++i) values_[node.outputs[i]] = outputs[i];
  }

  graph::Graph graph_;
  ops::ReferenceDispatcher dispatcher_;
  std::vector<Tensor> values_;
  std::vector<ops::HostList> lists_;
};

// The gated activation of a feed-forward layer, and the norm behind it.
Tensor gate_and_norm(Context& context, Tensor x, Parameter weight) {
  const Tensor rows = ops::reshape(context, x, {x.shape()[0] * 2, 16});
  const Tensor gate = ops::slice(context, rows, 1, 0, 8);
  const Tensor up = ops::slice(context, rows, 1, 8, 16);
  return ops::rms_norm(context, ops::mul(context, ops::silu(context, gate), up), weight, 1e-6);
}

int main() {
  Library library = Library::open("cpu", 2);
  library.register_backend("reference", [](graph::Graph graph, const BackendContext& context) {
    std::printf("the backend is given:");
    for (const graph::NodeId id : graph.order()) std::printf(" %s", graph.node(id).op->name().c_str());
    std::printf("\n");
    return std::make_unique<ReferenceProgram>(std::move(graph), context.registry);
  });

  const auto tensor = [&](const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    return library.from_floats(shape, values);
  };
  const Tensor weight = tensor({8});
  MethodOptions options;
  options.name = "gate_and_norm";
  options.argument_names = {"x", "weight"};
  auto replayed = library.compile(gate_and_norm, options);
  options.backend = "reference";
  auto judged = library.compile(gate_and_norm, options);

  for (const int64_t count : {2, 5, 7}) {
    const Tensor x = tensor({count, 2, 16});
    const std::vector<float> expected = library.to_floats(judged(x, weight));
    const std::vector<float> found = library.to_floats(replayed(x, weight));
    float largest = 0;
    for (size_t i = 0; i < expected.size(); ++i) largest = std::max(largest, std::fabs(found[i] - expected[i]));
    std::printf("x of %d: the largest difference is %s 1e-5\n", static_cast<int>(count),
                largest < 1e-5f ? "below" : "above");
  }
  std::printf("\nreplayed:\n%s\nby the backend:\n%s", replayed.counters().to_text().c_str(),
              judged.counters().to_text().c_str());
}
