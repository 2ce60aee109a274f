#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compile/matcher.h"
#include "compile/pass.h"
#include "compile/pattern_context.h"
#include "graph/graph.h"
#include "ops/registry.h"

namespace reprise::compile {

struct ReplacementRule;

/// A place where a pattern fits, as a rule's check sees it. Names are those that the rule declares; others throw
/// kInvalidArgument.
class Match {
 public:
  Match(const ReplacementRule& rule, const TracedPattern& pattern, const graph::Graph& graph, const Binding& binding)
      : rule_(rule), pattern_(pattern), graph_(graph), binding_(binding) {}

  const graph::Graph& graph() const { return graph_; }
  /// The value that a tensor of the pattern stands for.
  const graph::Value& value(std::string_view tensor) const;
  const TensorMeta& meta(std::string_view tensor) const { return value(tensor).meta; }
  const ops::Attribute& scalar(std::string_view name) const;
  double number(std::string_view name) const { return std::get<double>(scalar(name)); }
  int64_t integer(std::string_view name) const { return std::get<int64_t>(scalar(name)); }

 private:
  const ReplacementRule& rule_;
  const TracedPattern& pattern_;
  const graph::Graph& graph_;
  const Binding& binding_;
};

/// A fusion: wherever `pattern` fits, its operators give way to those of `replacement`. Both are ordinary operator
/// calls and return the same number of tensors; what the pattern does not return must not be used by others.
struct ReplacementRule {
  std::string name;
  std::vector<PatternTensor> tensors;
  std::vector<PatternScalar> scalars;
  PatternFunction pattern;
  PatternFunction replacement;
  /// Why a match is left alone, or "". Null: none is.
  std::function<std::string(const Match&)> check;
  /// The replacement rounds elsewhere than the pattern: applied only where inexact fusions are asked for.
  bool inexact = false;
  std::vector<PatternList> lists;
};

struct RewriteOptions {
  /// The device whose kernels the replacement's operators must have; "": not asked.
  std::string device;
  bool allow_inexact = false;
};

/// Fusions in the order in which they are tried at a place: a value that a program fills, copies and hands to passes.
class ReplacementSet {
 public:
  /// The registry must outlive the set and the graphs that it rewrites.
  explicit ReplacementSet(const ops::Registry& registry) : registry_(&registry) {}

  /// Traces the pattern with the examples. Throws kInvalidArgument, naming the rule, for a name that is taken, for a
  /// pattern that is empty or not connected or that uses tensors of its own, for scalars that share an example or do
  /// not occur; and what the tracer throws.
  void add(ReplacementRule rule);
  size_t size() const { return entries_.size(); }
  /// Of the rules, in order.
  std::vector<std::string> names() const;

  /// Applies the rules until none fits, the last place first; each operator is replaced once a round. Places that fit
  /// but must stay are refusals: "SOURCE: OPERATOR: RULE: reason". Throws kInvalidArgument, naming the rule, when the
  /// rules keep fitting what they made (after kMatchesPerNode matches for each operator of the graph).
  PassResult run(graph::Graph& graph, const RewriteOptions& options = {}) const;

  static constexpr size_t kMatchesPerNode = 8;

 private:
  struct Entry {
    ReplacementRule rule;
    TracedPattern pattern;  ///< of the examples
  };

  const ops::Registry* registry_;
  std::vector<std::shared_ptr<const Entry>> entries_;

  friend class Rewriter;
};

}  // namespace reprise::compile
