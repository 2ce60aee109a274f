#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compile/replacement.h"

namespace reprise::compile {

/// One run of a set of replacements over a graph.
class Rewriter {
 public:
  Rewriter(const ReplacementSet& set, const ops::Registry& registry, const RewriteOptions& options, graph::Graph& graph)
      : set_(set), registry_(registry), options_(options), graph_(graph) {}

  PassResult run();

 private:
  using Entry = ReplacementSet::Entry;
  /// A way to match that passed every test, and what takes its place.
  struct Plan {
    Binding binding;
    TracedPattern replacement;
    graph::NodeId next = graph::kNoNode;  ///< the new nodes go in front of it; none: to the end
  };

  bool run_round(size_t limit);
  /// Whether a rule was applied with its last node at `root`.
  bool try_rule(const Entry& entry, graph::NodeId root);
  /// Why the match must be left alone; "" with the rest of `plan` filled in.
  std::string examine(const Entry& entry, Plan& plan) const;
  std::string check_scopes(const Entry& entry, const Binding& binding) const;
  std::string check_outside_uses(const Entry& entry, const Binding& binding) const;
  std::string find_place(const Entry& entry, Plan& plan) const;
  std::string check_effects(const Entry& entry, const Plan& plan) const;
  std::string check_outputs(const Entry& entry, const Plan& plan) const;
  PatternArguments arguments_of(const Entry& entry, const Binding& binding) const;
  std::string compare(const TracedPattern& again, const Entry& entry, const Binding& binding) const;
  /// Puts the replacement in; the reason where memory effects forbid it, with the graph as it was.
  std::string apply(const Entry& entry, const Plan& plan, graph::NodeId root);
  std::vector<graph::ValueId> insert(const Entry& entry, const Plan& plan, graph::NodeId root,
                                     std::vector<graph::NodeId>& nodes);
  /// Throws when more was replaced than any rules that end could.
  void check_end(size_t limit) const;

  const ReplacementSet& set_;
  const ops::Registry& registry_;
  const RewriteOptions& options_;
  graph::Graph& graph_;
  PassResult result_;
  std::map<std::string, int64_t> matches_;  ///< by rule
};

}  // namespace reprise::compile
