#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::compile {

/// A tensor that a pattern takes. The example's sizes do not matter: a pattern is traced again with those of a match.
/// Its first axis may be Dim::symbolic(Symbol::kTokens) or kSequences.
struct PatternTensor {
  std::string name;
  TensorMeta example;
};

/// A host list that a pattern takes.
struct PatternList {
  std::string name;
  Dim example_length;
};

/// An attribute that may have any value: wherever the traced pattern has the example, the value is captured. Choose
/// examples that nothing else in the pattern equals, such as 7919 or 2.5e-6.
struct PatternScalar {
  std::string name;
  ops::Attribute example;
};

/// What the functions of a pattern and of its replacement are given. They make ordinary operator calls:
/// `ops::rms_norm(p.context(), p["x"], p["weight"], p.number("epsilon"))`.
class PatternContext {
 public:
  struct Names {
    std::span<const PatternTensor> tensors;
    std::span<const PatternList> lists;
    std::span<const PatternScalar> scalars;
  };
  PatternContext(ops::Dispatcher& dispatcher, Names names, std::vector<Tensor> tensors,
                 std::vector<ops::HostList> lists, std::vector<ops::Attribute> scalars)
      : context_(dispatcher),
        names_(names),
        tensors_(std::move(tensors)),
        lists_(std::move(lists)),
        scalars_(std::move(scalars)) {}

  /// Its positions, slots, lengths ... are absent unless the function sets them from its arguments.
  ops::ForwardContext& context() { return context_; }
  /// These throw kInvalidArgument for names that the pattern does not declare, and for scalars of another kind.
  const Tensor& operator[](std::string_view name) const;
  const ops::HostList& list(std::string_view name) const;
  const ops::Attribute& scalar(std::string_view name) const;
  double number(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  DType dtype(std::string_view name) const;

 private:
  ops::ForwardContext context_;
  Names names_;
  std::vector<Tensor> tensors_;
  std::vector<ops::HostList> lists_;
  std::vector<ops::Attribute> scalars_;
};

/// One side of a replacement. Returns the values that others may use.
using PatternFunction = std::function<std::vector<Tensor>(PatternContext&)>;

/// A side in traced form.
struct TracedPattern {
  graph::Graph graph;
  std::vector<graph::ValueId> tensors;  ///< of the declared tensors, in their order
  std::vector<graph::ValueId> lists;
};

/// Whether a side has streams, events or core limits, which stay outside of patterns: a match is on one stream, and
/// what replaces it runs there.
bool uses_scopes(const graph::Graph& side);

/// The arguments that a side is traced with.
struct PatternArguments {
  std::span<const graph::SymDim> symbols;
  std::vector<TensorMeta> tensors;
  std::vector<Dim> lists;
  std::vector<ops::Attribute> scalars;
};

/// Throws what the function or the tracer throws.
TracedPattern trace_pattern(const ops::Registry& registry, const std::string& name, const PatternFunction& function,
                            PatternContext::Names names, const PatternArguments& arguments);

}  // namespace reprise::compile
